import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeFileStore

@Suite("Errors of a file store")
struct FileStoreErrorTests {
    @Test(
        "every code has a one-line description",
        arguments: [
            FileStoreError.Code.notFound, .alreadyExists, .unknownOutcome, .unavailable(.server),
            .invalidKey(.dotComponent), .isDirectory, .notDirectory,
            .noSpace,
            .notPermitted, .unavailable(.locked), .tooLarge, .unsafe(.symbolicLink), .invalidSource(.notFound),
            .invalidDestination(.noDirectory),
            .undecodable,
            .unencodable, .durabilityUnknown, .unsupported, .invalidAttribute(.name("a\nb")),
            .invalidAttribute(.tooLarge("a")),
        ])
    func descriptions(_ code: FileStoreError.Code) {
        let error = FileStoreError(
            code, .save, key: "a\nb\0c", underlying: FileSystemError(.write, .ioError, path: "x\ny"))
        let text = error.description
        #expect(text.hasPrefix("save a\\x0ab\\x00c: "))
        #expect(text.hasSuffix("(EIO))"))
        #expect(!text.contains("\n"))
        #expect(FileStoreError(code, .list).description == "list: \(code)")
    }

    @Test(
        "error numbers are mapped to codes",
        arguments: [
            (FileSystemError(.open, .noSuchFileOrDirectory), .load, .notFound),
            (FileSystemError(.open, .noSuchFileOrDirectory), .save, .unavailable(.inputOutput)),
            (FileSystemError(.rename, .fileExists), .save, .alreadyExists),
            (FileSystemError(.createDirectory, .fileExists), .createDirectory, .notDirectory),
            (FileSystemError(.rename, .isDirectory), .save, .isDirectory),
            (FileSystemError(.open, .notDirectory), .load, .notDirectory),
            (FileSystemError(.write, .noSpace), .save, .noSpace),
            (FileSystemError(.write, .diskQuotaExceeded), .save, .noSpace),
            (FileSystemError(.open, .readOnlyFileSystem), .save, .notPermitted),
            (FileSystemError(.createDirectory, .tooManyLinks), .save, .unavailable(.inputOutput)),
            (FileSystemError(.read, .notSupported), .load, .unsafe(.notRegular)),
            (FileSystemError(.open, .tooManySymbolicLinkLevels), .load, .unsafe(.symbolicLink)),
            (FileSystemError(.open, .fileNameTooLong), .save, .invalidKey(.componentTooLong)),
            (FileSystemError(.read, .ioError), .load, .unavailable(.inputOutput)),
            (FileSystemError(.watch, .noSpace), .watch, .watchLimit),
            (FileSystemError(.watch, .tooManyOpenFiles), .watch, .watchLimit),
            (FileSystemError(.watch, .notSupported), .watch, .unsupported),
            (FileSystemError(.open, .tooManyOpenFiles), .load, .unavailable(.inputOutput)),
            (FileSystemError(.setExtendedAttribute, .notSupported), .save, .unsupported),
            (FileSystemError(.open, .resourceBusy), .save, .unsafe(.anotherStore)),
            (FileSystemError(.rename, .canceled), .save, .conflict),
            (FileSystemError(.write, .badFileDescriptor), .save, .closed),
            (FileSystemError(.write, .badFileDescriptor), .copy, .unavailable(.inputOutput)),
            (FileSystemError(.removeDirectory, .directoryNotEmpty), .deleteDirectory, .foreignContent),
            (FileSystemError(.rename, .resourceBusy), .deleteAll, .foreignContent),
            (FileSystemError(.open, .noSuchFileOrDirectory), .move, .unavailable(.inputOutput)),
        ] as [(FileSystemError, FileStoreError.Operation, FileStoreError.Code)])
    func codes(_ error: FileSystemError, _ operation: FileStoreError.Operation, _ code: FileStoreError.Code) {
        #expect(FileStoreError(error, operation, key: "k").code == code)
    }

    @Test(
        "a root that cannot be opened never means that a file is missing",
        arguments: [
            (.noSuchFileOrDirectory, .unavailable(.inputOutput)),
            (.permissionDenied, .notPermitted), (.noSpace, .noSpace), (.notDirectory, .unavailable(.inputOutput)),
            (.readOnlyFileSystem, .notPermitted), (.diskQuotaExceeded, .noSpace),
            (.resourceBusy, .unsafe(.anotherStore)),
        ] as [(Errno, FileStoreError.Code)])
    func opening(_ errno: Errno, _ code: FileStoreError.Code) {
        #expect(FileStoreError(opening: FileSystemError(.open, errno), .load, key: "k").code == code)
    }

    @Test("the error for an undecodable file contains its key, not its content")
    func undecodable() async throws {
        struct Inner: Codable { var pin: Int }
        struct Outer: Codable { var inner: Inner }
        let store = InMemoryFileStore()
        for (content, place) in [
            ("{\"inner\":{\"pin\":\"s3cret\"}}", "another type at inner.pin"), ("{\"inner\":{}}", "no pin at inner"),
            ("{\"inner\":null}", "no value at inner"), ("s3cret", "damaged"),
        ] {
            try await store.save(Data(content.utf8), to: "k")
            await #expect {
                try await store.loadJSON("k", as: Outer.self)
            } throws: { error in
                let text = "\(error)"
                return text == "load k: cannot be decoded (\(place))" && !text.contains("s3cret")
            }
        }
    }

    @Test("the error for a source has its whole path", arguments: ["/in/missing", "/in/file/below", "/"])
    func source(path: String) async throws {
        let memory = InMemoryFileSystem()
        try memory.createDirectory("/in")
        try memory.write(Data(), to: URL(filePath: "/in/file"))
        let store = DiskFileStore(root: URL(filePath: "/store"), fileSystem: memory)
        let source = URL(filePath: path)
        let calls: [() async throws -> Void] = [
            { try await store.copy(from: source, to: "f") }, { try await store.move(from: source, to: "f") },
        ]
        for call in calls {
            let error = await #expect(throws: FileStoreError.self) { try await call() }
            #expect(error?.code == .invalidSource(path == "/" ? .notRegular : .notFound))
            #expect((error?.underlying as? FileSystemError)?.path == POSIXPath(path))
        }
    }

    @Test("summing sizes does not trap")
    func totals() {
        let huge = StoredFile(key: "a/b", sizeInBytes: .max, modified: .distantPast)
        #expect([huge, huge].totalSizeInBytes == .max)
        #expect(huge.name == "b")
        #expect(StoredFile(key: "top", sizeInBytes: 1, modified: .distantPast).name == "top")
    }

    @Test("files and options of listings are equal only if every part is, texts byte for byte")
    func equality() {
        let revision = FileRevision(rawValue: "1")
        let file = StoredFile(key: "\u{E9}", sizeInBytes: 1, modified: .distantPast, revision: revision)
        var files = Array(repeating: file, count: 5)
        files[0].key = "e\u{301}"
        files[1].kind = .other
        files[2].sizeInBytes = 2
        files[3].modified = .distantFuture
        files[4].revision = FileRevision(rawValue: "2")
        for other in files { #expect(other != file) }
        #expect(Set(files + [file, file]).count == 6)

        let options = FileListingOptions(prefix: "\u{E9}", after: "\u{E9}")
        let others = [
            FileListingOptions(recursive: false, prefix: "\u{E9}", after: "\u{E9}"),
            FileListingOptions(sorted: true, prefix: "\u{E9}", after: "\u{E9}"),
            FileListingOptions(prefix: "e\u{301}", after: "\u{E9}"),
            FileListingOptions(prefix: "\u{E9}", after: "e\u{301}"), FileListingOptions(prefix: "\u{E9}"),
        ]
        for other in others { #expect(other != options) }
        #expect(Set(others + [options, options]).count == 6)
    }

    @Test("an error of Foundation has the number of the system call behind it")
    func foundation() {
        let denied = NSError(domain: NSPOSIXErrorDomain, code: Int(Errno.permissionDenied.rawValue))
        let cocoa = CocoaError(.fileWriteNoPermission, userInfo: [NSUnderlyingErrorKey: denied])
        #expect(Errno(ofFoundation: denied) == .permissionDenied)
        #expect(Errno(ofFoundation: cocoa) == .permissionDenied)
        #expect(Errno(ofFoundation: CocoaError(.fileWriteUnknown)) == .ioError)
    }
}
