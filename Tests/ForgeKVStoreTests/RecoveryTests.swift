import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import TestDepth
import Testing

@Suite struct RecoveryTests {
    /// The operations of the small log that the tests damage, and the state after each.
    private static let states: [[String: Int]] = [
        [:], ["a": 1], ["a": 1, "b": 2], ["a": 3, "b": 2], ["a": 3], ["a": 3, "c": 70_000],
        ["a": 3, "c": 70_000, "d": 5],
    ]

    private static func operate(on store: FileKVStore, _ index: Int) throws {
        switch index {
        case 0: try store.set(KVKey<Int>("a"), value: 1)
        case 1: try store.set(KVKey<Int>("b"), value: 2)
        case 2: try store.set(KVKey<Int>("a"), value: 3)
        case 3: try store.remove(KVKey<Int>("b"))
        case 4: try store.set(KVKey<Int>("c"), value: 70_000)
        default: try store.set(KVKey<Int>("d"), value: 5)
        }
    }

    /// The state without operation `missing`.
    private static func state(without missing: Int) throws -> [String: Int] {
        let store = try FileKVStore(at: "/other", fileSystem: InMemoryFileSystem())
        for index in 0..<6 where index != missing { try operate(on: store, index) }
        return try store.integers()
    }

    /// The small log while open, its length after each operation, and the log after closing.
    private struct Sample {
        var open: [UInt8]
        var closed: [UInt8]
        var ends: [Int]

        init() throws {
            let fixture = LogFixture()
            var store: FileKVStore? = try fixture.open()
            ends = [try fixture.bytes().count]
            for index in 0..<6 {
                if let store { try operate(on: store, index) }
                ends.append(try fixture.bytes().count)
            }
            open = try fixture.bytes()
            store = nil
            closed = try fixture.bytes()
        }

        /// The operation that a byte belongs to; nil for the header and for bytes appended by closing.
        func operation(at offset: Int) -> Int? {
            guard offset >= ends[0], let index = ends.firstIndex(where: { offset < $0 }) else { return nil }
            return index - 1
        }
    }

    @Test("damage before a flush marker is reported, regardless of the intact records that follow")
    func damageBeforeMany() throws {
        let fixture = LogFixture()
        do {
            let store = try fixture.open()
            try store.set(KVKey<Int>("a"), value: 1)
            try store.synchronize()
            for value in 0..<5 { try store.set(KVKey<Int>("b"), value: value) }
        }
        var bytes = try fixture.bytes()
        bytes[64 + 22] ^= 0xFF
        try fixture.replace(bytes)
        let recorder = IssueRecorder()
        #expect(try fixture.open(recorder).integers() == ["b": 4])
        #expect(recorder.damage.map(\.offset) == [64])
        #expect(try fixture.open().damageReports().count == 1)
    }

    @Test("a log truncated at any byte opens with all complete records, and can be written to")
    func truncation() throws {
        let sample = try Sample()
        for length in TestDepth.sample(0...sample.open.count, every: 3) {
            let fixture = LogFixture()
            try fixture.replace(Array(sample.open[..<length]))
            let whole = sample.ends.lastIndex { $0 <= length } ?? 0
            do {
                let store = try fixture.open()
                #expect(try store.integers() == Self.states[whole], "cut at \(length)")
                try store.set(KVKey<Int>("new"), value: length)
            }
            var expected = Self.states[whole]
            expected["new"] = length
            let recorder = IssueRecorder()
            #expect(try fixture.open(recorder).integers() == expected, "cut at \(length), reopened")
            #expect(recorder.issues.isEmpty)
        }
    }

    @Test("any flipped bit in a closed log loses one record, which is set aside")
    func bitFlips() throws {
        let sample = try Sample()
        for bit in TestDepth.sample(0..<(sample.closed.count * 8), every: 13) {
            var bytes = sample.closed
            bytes[bit / 8] ^= 1 << (bit % 8)
            let fixture = LogFixture()
            try fixture.replace(bytes)
            let operation = sample.operation(at: bit / 8)
            let expected = try operation.map(Self.state) ?? Self.states[6]
            let recorder = IssueRecorder()
            do {
                let store = try fixture.open(recorder)
                #expect(try store.integers() == expected, "bit \(bit)")
                if let operation {
                    #expect(recorder.damage.map(\.kind) == [.records], "bit \(bit)")
                    #expect(recorder.damage.map(\.offset) == [Int64(sample.ends[operation])], "bit \(bit)")
                    let report = try #require(recorder.damage.first)
                    let copy = try fixture.fileSystem.readFile(POSIXPath(report.file))
                    #expect(copy == Array(bytes[sample.ends[operation]..<sample.ends[operation + 1]]))
                    #expect(try store.damageReports() == recorder.damage)
                } else if bit / 8 < sample.ends[0] {
                    #expect(recorder.damage.map(\.kind) == [.header], "bit \(bit)")
                }
                try store.set(KVKey<Int>("new"), value: 1)
            }
            let second = IssueRecorder()
            var later = expected
            later["new"] = 1
            #expect(try fixture.open(second).integers() == later, "bit \(bit), reopened")
            #expect(second.issues.isEmpty, "bit \(bit), reopened: \(second.descriptions)")
        }
    }

    @Test("a flipped bit in a log that was never flushed ends the log; later intact records are set aside")
    func bitFlipsUnflushed() throws {
        let sample = try Sample()
        for bit in TestDepth.sample((sample.ends[0] * 8)..<(sample.open.count * 8), every: 13) {
            var bytes = sample.open
            bytes[bit / 8] ^= 1 << (bit % 8)
            let fixture = LogFixture()
            try fixture.replace(bytes)
            let operation = try #require(sample.operation(at: bit / 8))
            let recorder = IssueRecorder()
            #expect(try fixture.open(recorder).integers() == Self.states[operation], "bit \(bit)")
            #expect(recorder.damage.map(\.kind) == (operation == 5 ? [] : [.tail]), "bit \(bit)")
            if let report = recorder.damage.first {
                #expect(
                    try fixture.fileSystem.readFile(POSIXPath(report.file)) == Array(bytes[sample.ends[operation]...]))
            }
            #expect(recorder.descriptions.contains { $0.contains("unfinished") })
        }
    }

    @Test(
        "a log of random bytes, and one of random bytes changed, never traps",
        arguments: 0..<TestDepth.limit(1, deep: 20))
    func fuzz(_ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let sample = try Sample()
        for round in 0..<100 {
            var bytes =
                round % 3 == 0 ? (0..<Int.random(in: 0...300, using: &random)).map { _ in UInt8(0) } : sample.closed
            for _ in 0...Int.random(in: 0...20, using: &random) where !bytes.isEmpty {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[index] = .random(in: 0...255, using: &random)
                case 1: bytes.removeSubrange(index..<Int.random(in: index...bytes.count, using: &random))
                case 2: bytes.insert(contentsOf: bytes[index...].prefix(50), at: index)
                default: bytes.append(.random(in: 0...255, using: &random))
                }
            }
            let fixture = LogFixture()
            try fixture.replace(bytes)
            let values: [String: Int]
            do {
                let store = try fixture.open()
                values = try store.integers()
                for (name, value) in values {
                    #expect(
                        Self.states.contains { $0[name] == value }, "seed \(seed), round \(round): \(name) = \(value)")
                }
            }
            #expect(try fixture.open().integers() == values, "seed \(seed), round \(round), reopened")
        }
    }

    @Test("bytes between two records are damage, and no record is lost", arguments: [1, 2, 19, 40])
    func insertedBytes(_ count: Int) throws {
        let sample = try Sample()
        for end in sample.ends {
            let fixture = LogFixture()
            var bytes = sample.closed
            bytes.insert(contentsOf: [UInt8](repeating: 0x5A, count: count), at: end)
            try fixture.replace(bytes)
            let recorder = IssueRecorder()
            #expect(try fixture.open(recorder).integers() == Self.states[6], "at \(end)")
            #expect(recorder.issues.count == 1 && recorder.damage.map(\.kind) == [.records], "at \(end)")
            #expect(recorder.damage.map(\.offset) == [Int64(end)], "at \(end)")
            #expect(recorder.damage.map(\.sizeInBytes) == [Int64(count)], "at \(end)")
        }
    }

    @Test("zeros after the last record are not damage")
    func zeroTail() throws {
        let sample = try Sample()
        let fixture = LogFixture()
        try fixture.replace(sample.open + [UInt8](repeating: 0, count: 5000))
        let recorder = IssueRecorder()
        do {
            let store = try fixture.open(recorder)
            #expect(try store.integers() == Self.states[6])
            #expect(recorder.issues.isEmpty)
            try store.set(KVKey<Int>("new"), value: 1)
        }
        #expect(try fixture.open().integers().count == Self.states[6].count + 1)
    }

    @Test("a log without a header is set aside as a whole and reported")
    func headerGone() throws {
        let sample = try Sample()
        let fixture = LogFixture()
        let bytes = [UInt8](repeating: 0xAA, count: 64) + sample.closed[64...]
        try fixture.replace(bytes)
        let recorder = IssueRecorder()
        let store = try fixture.open(recorder)
        #expect(try store.keys().isEmpty)
        let report = try #require(recorder.damage.first)
        #expect(report.kind == .log)
        #expect(try fixture.fileSystem.readFile(POSIXPath(report.file)) == bytes)
        #expect(try store.damageReports() == [report])
        try store.set(KVKey<Int>("a"), value: 1)
        #expect(store.get(KVKey<Int>("a")) == 1)
    }

    @Test("records of another log are ignored")
    func foreignRecords() throws {
        let sample = try Sample()
        let other = LogFixture()
        // The random generator has the same seed, so advance it.
        _ = other.fileSystem.randomBits()
        try other.open().set(KVKey<Int>("foreign"), value: 1)
        let fixture = LogFixture()
        try fixture.replace(Array(sample.open[..<sample.ends[3]]) + (try other.bytes()[64...]))
        #expect(try fixture.open().integers() == Self.states[3])
    }

    @Test("an old record after newer ones is not replayed")
    func staleRecord() throws {
        let sample = try Sample()
        let stale = sample.open[sample.ends[0]..<sample.ends[1]]
        let fixture = LogFixture()
        try fixture.replace(sample.open + stale)
        #expect(try fixture.open().integers() == Self.states[6])
    }

    @Test("a missing record is reported")
    func missingRecord() throws {
        let sample = try Sample()
        let fixture = LogFixture()
        var bytes = sample.closed
        bytes.removeSubrange(sample.ends[1]..<sample.ends[2])
        try fixture.replace(bytes)
        let recorder = IssueRecorder()
        #expect(try fixture.open(recorder).integers() == (try Self.state(without: 1)))
        #expect(recorder.descriptions.contains { $0.contains("missing") })
    }

    @Test("a store of a later version is refused and left unchanged")
    func laterVersion() throws {
        let fixture = LogFixture()
        var bytes = try Sample().closed
        bytes[8] = 2
        try fixture.replace(bytes.enumerated().map { $0.element })
        // With a correct checksum, it is a valid header of version 2.
        var checksum: UInt32 = .max
        for byte in bytes[..<60] {
            checksum ^= UInt32(byte)
            for _ in 0..<8 { checksum = checksum & 1 == 0 ? checksum >> 1 : checksum >> 1 ^ 0x82F6_3B78 }
        }
        for index in 0..<4 { bytes[60 + index] = UInt8(truncatingIfNeeded: ~checksum >> (8 * UInt32(index))) }
        try fixture.replace(bytes)
        let error = try #require(throws: KVStoreError.self) { try fixture.open() }
        #expect(error.code == .unknownFormat(version: 2))
        #expect(try fixture.bytes() == bytes)
        #expect(try fixture.names() == ["#lock", "#store-key-value", "log"])
    }

    @Test("a log that is not a regular file of the store is refused")
    func strangeLogs() throws {
        for kind in 0..<3 {
            let fixture = LogFixture()
            try fixture.fileSystem.makeDirectories("/store")
            try fixture.fileSystem.makeDirectories("/elsewhere")
            switch kind {
            case 0: try fixture.fileSystem.makeDirectories("/store/log")
            case 1: try fixture.fileSystem.createSymbolicLink("/store/log", to: "/elsewhere/log")
            default:
                try fixture.replace(try Sample().closed)
                try fixture.fileSystem.link("/store/log", to: "/elsewhere/log")
            }
            let error = try #require(throws: KVStoreError.self) { try fixture.open() }
            #expect(error.code == .unavailable(.inputOutput))
            #expect(error.operation == .open)
        }
    }

    @Test("issues found at opening are reported once, not by every further object over the open store")
    func reportedOnce() throws {
        let fixture = LogFixture()
        do {
            let store = try fixture.open()
            for number in 0..<3 { try store.set(KVKey<Int>("\(number)"), value: number) }
        }
        var bytes = try fixture.bytes()
        bytes[64 + 30] ^= 1
        try fixture.replace(bytes)
        let recorder = IssueRecorder()
        let store = try fixture.open(recorder)
        #expect(recorder.issues.count == 1)
        let second = try fixture.open(recorder)
        #expect(recorder.issues.count == 1)
        withExtendedLifetime((store, second)) {}
    }
}
