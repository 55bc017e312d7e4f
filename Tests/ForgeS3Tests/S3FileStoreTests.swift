#if S3
import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Metrics
import MetricsTestKit
import S3Servers
import ServerTestSupport
import Testing
@testable import ForgeS3

@Suite("The store in S3 conforms", .enabled(if: S3TestServer.isAvailable))
struct S3ConformanceTests {
    /// Empty directories exist, as marker objects. Files have no URLs.
    static let capabilities: Set<ConformanceCapability> = [.emptyDirectories]

    @Test(arguments: ConformanceChecks.fileStore.filter { $0.needs.isSubset(of: capabilities) })
    func conforms(_ check: ConformanceCheck<any FileStoring>) async throws {
        try await check.run(on: try await S3FileStore.test())
    }

    @Test(
        "with a prefix and parts it conforms too",
        arguments: ConformanceChecks.fileStore.filter {
            // The longest key has no place for a prefix.
            $0.needs.isSubset(of: capabilities) && !$0.description.contains("the longest")
        })
    func prefixed(_ check: ConformanceCheck<any FileStoring>) async throws {
        let store = try await S3FileStore.test {
            $0.prefix = "app/v1/"
            $0.partSizeInBytes = 5 << 20
        }
        try await store.put("app/other", "of another program")
        try await check.run(on: store)
        #expect(try await store.objects().contains("app/other"))
    }

    @Test("files have no URLs, which are the only capability that is missing")
    func urls() async throws {
        let store = try await S3FileStore.test()
        try await store.save(Data("x".utf8), to: "a")
        await expectFailure(.unsupported) { try await store.url(for: "a") }
        let missing = ConformanceChecks.fileStore.reduce(into: Set()) { $0.formUnion($1.needs) }
            .subtracting(Self.capabilities)
        #expect(missing == [.fileURLs])
    }
}

@Suite("The store in S3 on a server", .enabled(if: S3TestServer.isAvailable))
struct S3FileStoreTests {
    @Test("large files are stored and loaded in parts, and exclusively")
    func parts() async throws {
        let store = try await S3FileStore.test { $0.partSizeInBytes = 5 << 20 }
        let content = pattern(12 << 20)
        let isExclusive = S3TestServer.createsPartsExclusively
        let file = try await store.save(content, to: "d/large", if: isExclusive ? .absent : .always)
        #expect(try await store.load("d/large") == content)
        #expect(try await store.revision(of: "d/large") == file.revision)
        await expectFailure(isExclusive ? .alreadyExists : .unsupported) {
            try await store.save(content, to: "d/large", overwrite: false)
        }
        let writer = try store.writer(for: "d/other", if: isExclusive ? .absent : .always)
        try await writer.write(content)
        try await writer.commit()
        #expect(try await store.reader(for: "d/other").read(6_000_000..<6_000_010) == content[6_000_000..<6_000_010])
        #expect(try await store.objects() == ["d/large", "d/other"])
        #expect(try await store.uploadCount() == 0)
    }

    @Test("a save of a revision is kept or refused: moto ignores the condition of a save in parts")
    func revisions() async throws {
        let store = try await S3FileStore.test { $0.partSizeInBytes = 5 << 20 }
        let first = try #require(try await store.save(Data("a".utf8), to: "a", if: .absent).revision)
        guard S3TestServer.replacesConditionally else {
            let error = await expectFailure(.unsupported) {
                try await store.save(Data("b".utf8), to: "a", if: .unchanged(first))
            }
            #expect((error?.underlying as? S3Error)?.reason == .noConditionalReplacement)
            #expect(try await store.load("a") == Data("a".utf8))
            return
        }
        let second = try #require(try await store.save(Data("b".utf8), to: "a", if: .unchanged(first)).revision)
        await expectFailure(.conflict) { try await store.save(Data("c".utf8), to: "a", if: .unchanged(first)) }
        let error = await expectFailure(.unsupported) {
            try await store.save(pattern(6 << 20), to: "a", if: .unchanged(second))
        }
        #expect((error?.underlying as? S3Error)?.reason == .noConditionalReplacement)
        #expect(try await store.load("a") == Data("b".utf8))
        #expect(try await store.objects() == ["a"])
        #expect(try await store.uploadCount() == 0)
    }

    @Test("a directory is a marker, or exists by its files")
    func directories() async throws {
        let store = try await S3FileStore.test()
        try await store.createDirectory("a/b")
        #expect(try await store.objects() == ["a/", "a/b/"])
        try await store.save(Data(), to: "a/b/c")
        try await store.save(Data(), to: "x/y")
        try await store.delete("a/b/c")
        try await store.delete("x/y")
        #expect(await store.exists("a/b"))
        #expect(await !store.exists("x"))
        #expect(try await store.list(recursive: true).map(\.key) == ["a", "a/b"])
        try await store.deleteDirectory("a")
        #expect(try await store.objects().isEmpty)
    }

    @Test("a directory whose name ends in a character that takes the slash along is listed and deleted like any other")
    func unevenNames() async throws {
        let store = try await S3FileStore.test { $0.prefix = "p\u{600}/" }
        let outside: [POSIXPath] = ["p\u{600}", "p\u{600}x"]
        for object in outside { try await store.put(String(object)) }
        // Without those of each byte of ASCII.
        let names = HostileKeys.unevenNames.prefix(28)
        for name in names { try await store.save(Data(name.utf8), to: name) }
        let directories: Set<POSIXPath> = ["\u{600}", "d", "\u{d4e}", "\u{d4e}/\u{301}y", "a\u{600}"]
        let expected = directories.union(names.map { POSIXPath($0) })
        func listed(in directory: String = "", recursive: Bool) async throws -> [POSIXPath] {
            try await store.list(in: directory, recursive: recursive).map { POSIXPath($0.key) }
        }
        let all = try await listed(recursive: true)
        #expect(all.count == expected.count && Set(all) == expected)
        let top = try await listed(recursive: false)
        let expectedTop = expected.filter { $0.splitLast().parent.isEmpty }
        #expect(top.count == expectedTop.count && Set(top) == expectedTop)
        #expect(try await listed(in: "\u{600}", recursive: false) == ["\u{600}/x"])
        let below = try await listed(in: "\u{d4e}", recursive: true)
        #expect(Set(below) == ["\u{d4e}/\u{301}y", "\u{d4e}/\u{301}y/z"])
        for name in names { #expect(try await store.load(name) == Data(name.utf8), "\(name)") }
        try await store.deleteDirectory("a\u{600}")
        let left = try await listed(recursive: true)
        #expect(Set(left) == expected.subtracting(["a\u{600}", "a\u{600}/b"]))
        try await store.deleteAll()
        let objects = try await store.objects()
        #expect(Set(objects.map { POSIXPath($0) }) == Set(outside))
    }

    @Test("objects whose keys are not valid are neither listed nor deleted")
    func foreign() async throws {
        let store = try await S3FileStore.test()
        for object in ["d/a", "d//b", "d/#tmp-x", "d/\u{FFFE}", "e//"] { try await store.put(object) }
        #expect(try await store.list(recursive: true).map(\.key) == ["d", "d/a", "d/\u{FFFE}"])
        #expect(try await store.totalSize() == 2)
        // Named like the marker of a directory.
        try await store.put("m/", "content")
        let objects = try await store.objects()
        for directory in ["d", "m"] {
            await expectFailure(.foreignContent) { try await store.deleteDirectory(directory) }
        }
        #expect(try await store.objects() == objects)
        try await store.deleteAll()
        #expect(Set(try await store.objects()) == ["d//b", "d/#tmp-x", "e//", "m/"])
    }

    @Test("files of other programs are loaded, without a checksum")
    func others() async throws {
        let store = try await S3FileStore.test()
        try await store.put("a", "content")
        #expect(try await store.load("a") == Data("content".utf8))
        let revision = try await store.revision(of: "a")
        guard S3TestServer.replacesConditionally else { return }
        try await store.save(Data("new".utf8), to: "a", if: .unchanged(revision))
        await expectFailure(.conflict) { try await store.save(Data(), to: "a", if: .unchanged(revision)) }
    }

    @Test("a missing bucket is not reported as a missing file")
    func bucket() async throws {
        let store = try await S3FileStore.test { $0.bucket = "none-\(UUID().uuidString.lowercased())" }
        for call in 0..<5 {
            let error = await expectFailure(.unavailable(.server)) {
                switch call {
                case 0: _ = try await store.load("a")
                case 1: _ = try await store.info("a")
                case 2: try await store.delete("a")
                case 3: _ = try await store.list()
                default: _ = try await store.reader(for: "a")
                }
            }
            #expect((error?.underlying as? S3Error)?.code == "NoSuchBucket")
        }
    }

    @Test("with a prefix, keys are shorter")
    func lengths() async throws {
        let store = try await S3FileStore.test { $0.prefix = "app/" }
        let key = Array(repeating: String(repeating: "a", count: 203), count: 5).joined(separator: "/")
        try await store.save(Data(), to: String(key.prefix(1_020)))
        await expectFailure(.invalidKey(.tooLong)) { try await store.save(Data(), to: key + "bb") }
        await expectFailure(.invalidKey(.tooLong)) { try await store.load(key + "bb") }
    }

    @Test("an error names operation, key, status, code, bucket and server in one line")
    func descriptions() async throws {
        let store = try await S3FileStore.test { $0.bucket = "none-\(UUID().uuidString.lowercased())" }
        let error = try #require(await expectFailure(.unavailable(.server)) { try await store.load("d/a") })
        #expect(error.description.hasPrefix("load d/a: unavailable: server error (NoSuchBucket, status 404"))
        let place = "s3://\(store.configuration.bucket) at \(try #require(store.configuration.endpoint))"
        #expect(error.description.hasSuffix(", \(place))"), "\(error)")
        #expect(!error.description.contains("\n"))
    }

    @Test("a presigned URL is that of the file, for as long as it says")
    func presigned() async throws {
        let store = try await S3FileStore.test()
        let url = try await store.presignedURL(for: "a b/ä", validFor: .seconds(60))
        #expect(
            url.absoluteString.hasPrefix(
                "\(try #require(store.configuration.endpoint))/\(store.configuration.bucket)/a%20b/%C3%A4?"))
        #expect(url.absoluteString.contains("X-Amz-Expires=60&"))
        await expectFailure(.invalidKey(.dotComponent)) {
            try await store.presignedURL(for: "../a", validFor: .seconds(1))
        }
    }

    @Test("the duration of a request is recorded with its operation, and the code of a failure")
    func durations() async throws {
        let metrics = SharedMetrics.metrics
        let store = try await S3FileStore.test()
        try await store.save(Data(), to: "a")
        await expectFailure(.notFound) { try await store.load("b") }
        let name = "rpc.client.call.duration"
        let put = [("rpc.system.name", "aws-api"), ("rpc.method", "S3/PutObject")]
        let get = [("rpc.system.name", "aws-api"), ("rpc.method", "S3/GetObject"), ("error.type", "NoSuchKey")]
        #expect(try metrics.expectTimer(name, put).values.isEmpty == false)
        #expect(try metrics.expectTimer(name, get).values.isEmpty == false)
    }
}
#endif
