// "Storing Codable structs on the disk" prints no test; this is its sample, on disk and in memory.

import ForgeStorage
import Foundation
import XCTest

private struct Timeline: Codable {
    let tweets: [String]
}

class Document004Tests: XCTestCase {
    func testTheSample() throws {
        let path = URL(fileURLWithPath: NSTemporaryDirectory())
            .appendingPathComponent("Document004-\(UUID().uuidString)")
        addTeardownBlock { try FileManager.default.removeItem(at: path) }
        let disk = DiskStorage(path: path)
        let storage = CodableStorage(storage: disk)

        let timeline = Timeline(tweets: ["Hello", "World", "!!!"])
        try storage.save(timeline, for: "timeline")
        let cached: Timeline = try storage.fetch(for: "timeline")
        XCTAssertEqual(cached.tweets, timeline.tweets)
    }

    func testTheSampleInMemory() throws {
        let storage = CodableStorage(storage: InMemoryStorage())
        try storage.save(Timeline(tweets: ["Hello"]), for: "feeds/timeline")
        let cached: Timeline = try storage.fetch(for: "feeds/timeline")
        XCTAssertEqual(cached.tweets, ["Hello"])
    }

    func testTheCallsOfBothProtocols() throws {
        let storage: Storage = InMemoryStorage()
        XCTAssertThrowsError(try storage.fetchValue(for: "timeline")) { error in
            guard case StorageError.notFound = error else { return XCTFail("\(error)") }
        }
        XCTAssertThrowsError(try storage.save(value: Data(), for: "../timeline")) { error in
            guard case StorageError.cantWrite = error else { return XCTFail("\(error)") }
        }
        let saved = expectation(description: "the save's handler is called")
        storage.save(value: Data("a".utf8), for: "timeline") { result in
            XCTAssertEqual(try? result.get(), Data("a".utf8))
            saved.fulfill()
        }
        let fetched = expectation(description: "the fetch's handler is called")
        storage.fetchValue(for: "timeline") { result in
            XCTAssertEqual(try? result.get(), Data("a".utf8))
            fetched.fulfill()
        }
        wait(for: [saved, fetched], timeout: 10, enforceOrder: true)
    }
}
