import ForgeStorage
import Foundation
import Testing

@Suite("Codable values in a storage")
struct CodableStorageTests {
    struct Timeline: Codable, Equatable {
        var tweets: [String]
        var updated: Date?
    }

    let bytes = InMemoryStorage()
    let storage: CodableStorage
    let timeline = Timeline(tweets: ["Hello", "World", "!!!"], updated: Date(timeIntervalSince1970: 1.5))

    init() {
        storage = CodableStorage(storage: bytes)
    }

    @Test("a saved value can be fetched, and is JSON in the storage")
    func roundTrip() throws {
        try storage.save(timeline, for: "timeline")
        let fetched: Timeline = try storage.fetch(for: "timeline")
        #expect(fetched == timeline)
        #expect(try JSONDecoder().decode(Timeline.self, from: bytes.fetchValue(for: "timeline")) == timeline)
    }

    @Test("a value need not be an object")
    func fragments() throws {
        try storage.save(42, for: "number")
        try storage.save(String?.none, for: "nothing")
        let number: Int = try storage.fetch(for: "number")
        let nothing: String? = try storage.fetch(for: "nothing")
        #expect(number == 42)
        #expect(nothing == nil)
    }

    @Test("absent, undecodable and refused are three distinct errors")
    func errors() throws {
        expectNotFound("timeline", in: bytes)
        let absent = #expect(throws: StorageError.self) { let _: Timeline = try storage.fetch(for: "timeline") }
        guard case .notFound = try #require(absent) else {
            Issue.record("expected notFound, got \(String(describing: absent))")
            return
        }
        try bytes.save(value: Data("{".utf8), for: "timeline")
        #expect(throws: DecodingError.self) { let _: Timeline = try storage.fetch(for: "timeline") }
        #expect(throws: StorageError.self) { let _: Timeline = try storage.fetch(for: "../timeline") }
        #expect(throws: StorageError.self) { try storage.save(timeline, for: "../timeline") }
    }

    @Test("a value that cannot be encoded does not replace the old one")
    func unencodable() throws {
        try storage.save(1.5, for: "number")
        #expect(throws: EncodingError.self) { try storage.save(Double.nan, for: "number") }
        let number: Double = try storage.fetch(for: "number")
        #expect(number == 1.5)
    }

    @Test("the given coders are used")
    func coders() throws {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        let storage = CodableStorage(storage: bytes, decoder: decoder, encoder: encoder)
        try storage.save(Date(timeIntervalSince1970: 0), for: "date")
        #expect(try bytes.fetchValue(for: "date") == Data(#""1970-01-01T00:00:00Z""#.utf8))
        let date: Date = try storage.fetch(for: "date")
        #expect(date == Date(timeIntervalSince1970: 0))
    }

    @Test("the calls with a handler save and fetch, and report every kind of error")
    func handlers() async throws {
        let saved = await withCheckedContinuation { continuation in
            storage.save(timeline, for: "timeline") { continuation.resume(returning: $0) }
        }
        #expect(try saved.get() == timeline)
        let fetched: Result<Timeline, any Error> = await withCheckedContinuation { continuation in
            storage.fetch(for: "timeline") { continuation.resume(returning: $0) }
        }
        #expect(try fetched.get() == timeline)
        let mistyped: Result<Int, any Error> = await withCheckedContinuation { continuation in
            storage.fetch(for: "timeline") { continuation.resume(returning: $0) }
        }
        #expect(throws: DecodingError.self) { try mistyped.get() }
        let unencodable = await withCheckedContinuation { continuation in
            storage.save(Double.nan, for: "number") { continuation.resume(returning: $0) }
        }
        #expect(throws: EncodingError.self) { try unencodable.get() }
    }

    @Test("the async calls save and fetch")
    func asynchronous() async throws {
        try await storage.saveInBackground(timeline, for: "timeline")
        let fetched: Timeline = try await storage.fetchInBackground(for: "timeline")
        #expect(fetched == timeline)
        await #expect(throws: StorageError.self) {
            let _: Timeline = try await storage.fetchInBackground(for: "missing")
        }
    }

    @Test("a removed value is absent")
    func remove() throws {
        try storage.save(timeline, for: "timeline")
        try storage.remove(for: "timeline")
        try storage.remove(for: "timeline")
        expectNotFound("timeline", in: bytes)
    }
}
