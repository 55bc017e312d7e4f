import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@Suite("The revision of a file")
struct FileRevisionTests {
    @Test("has a text from which it is made again")
    func text() throws {
        let memory = InMemoryFileSystem()
        try memory.write(Data("x".utf8), to: URL(filePath: "/f"))
        let revision = FileRevision(try memory.status("/f"))
        #expect(FileRevision(rawValue: revision.rawValue) == revision)
        #expect(try JSONDecoder().decode(FileRevision.self, from: JSONEncoder().encode(revision)) == revision)
    }

    @Test(
        "of another store keeps its text",
        arguments: [
            "", "\"0815\"", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.+2.3.4", "99999999999999999999.1.1.1", "1..2.3",
        ])
    func foreign(_ text: String) {
        #expect(FileRevision(rawValue: text).rawValue == text)
    }

    @Test("differs whenever one of the numbers differs")
    func distinct() {
        let texts = ["1.2.3.4", "2.2.3.4", "1.3.3.4", "1.2.4.4", "1.2.3.5", "1.-2.3.4"]
        #expect(Set(texts.map { FileRevision(rawValue: $0) }).count == texts.count)
        #expect(texts.map { FileRevision(rawValue: $0).rawValue } == texts)
    }
}

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

struct FileSystemErrorTests {
    @Test("an error description contains operation, path and reason in one line")
    func describesItself() {
        let error = FileSystemError(.rename, .improperLink, path: "a", destination: "b")
        #expect(error.description.hasPrefix("rename a to b: "))
        #expect(error.description.hasSuffix("(EXDEV)"))
        #expect(!error.description.contains("\n"))
    }

    @Test("an error number without a symbol is described by its number")
    func namesUnknownNumbers() {
        #expect(Errno(rawValue: 9999).name == "errno 9999")
        #expect(Errno.noSpace.name == "ENOSPC")
    }
}
