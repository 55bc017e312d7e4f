import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("The status of a file without its times")
struct BriefStatusTests {
    @Test("is part of its status, for a name, a link and an open file")
    func partOfStatus() throws {
        let root = FileManager.default.temporaryDirectory.appending(path: "forge-brief-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
        defer { do { try FileManager.default.removeItem(at: root) } catch {} }
        for (fileSystem, path) in [
            (SystemFileSystem(), POSIXPath(root.path)), (InMemoryFileSystem(), "/"),
        ] as [(any POSIXFileSystem, POSIXPath)] {
            let directory = try fileSystem.open(path, .readOnly, options: [.directory], permissions: [])
            let file = try fileSystem.open("file", at: directory, .readWrite, options: [.create])
            try fileSystem.writeBytes([1, 2, 3], to: file, at: 0)
            try fileSystem.link("file", at: directory, to: "other", at: directory)
            try fileSystem.createSymbolicLink("link", at: directory, to: "file")
            let references: [FileReference] = [
                .descriptor(file), .descriptor(directory),
                .path("file", at: directory, followsSymbolicLinks: false),
                .path("link", at: directory, followsSymbolicLinks: false),
                .path("link", at: directory, followsSymbolicLinks: true),
            ]
            for reference in references {
                #expect(try fileSystem.briefStatus(of: reference) == BriefFileStatus(fileSystem.status(of: reference)))
            }
            for name: POSIXPath in ["absent", ""] {
                let error = #expect(throws: FileSystemError.self) {
                    try fileSystem.briefStatus(of: .path(name, at: directory, followsSymbolicLinks: false))
                }
                #expect(error?.errno == .noSuchFileOrDirectory && error?.operation == .status)
            }
            try fileSystem.unlink("file", at: directory)
            try fileSystem.unlink("other", at: directory)
            #expect(try fileSystem.briefStatus(of: .descriptor(file)).linkCount == 0)
            try fileSystem.close(file)
            try fileSystem.close(directory)
        }
    }
}
