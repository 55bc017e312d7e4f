import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import Testing

@Suite("Stores into a mapping after a crash")
struct MappingCrashTests {
    /// All possible contents of a file of 32 letters, in the first 32 bytes, after the last step of a program.
    private func contents(
        _ profile: CrashProfile = .posixStrict, size: Int = 32,
        _ change: @escaping @Sendable (InMemoryFileSystem) throws -> Void
    ) async throws -> Set<[UInt8]> {
        let explorer = CrashExplorer(
            profile: profile, marking: String.self,
            prepare: { try $0.put("/f", letters("o", size)) }, run: { fileSystem, _ in try change(fileSystem) },
            recover: { _, _ in })
        let states = try await explorer.statesByHash(after: .max)
        return Set(try states.values.map { try InMemoryFileSystem($0).content("/f") ?? [] })
    }

    private let old = letters("o", 32)

    @Test("a store is present or absent, and may be torn between words, from either end")
    func tearsWords() async throws {
        let found = try await contents { try $0.store("/f", letters("n", 20), at: 4) }
        func mixture(_ range: Range<Int>) -> [UInt8] {
            var content = old
            content.replaceSubrange(range, with: letters("n", range.count))
            return content
        }
        let parts = [4..<24, 4..<8, 4..<16, 8..<24, 16..<24]
        #expect(found == Set(parts.map(mixture) + [old]))
        var whole = CrashProfile.posixStrict
        whole.tearsStores = false
        #expect(try await contents(whole) { try $0.store("/f", letters("n", 20), at: 4) } == [old, mixture(4..<24)])
    }

    @Test("a long store may be torn between all words within 128 bytes of its ends, and between cache lines")
    func tearsLongStores() async throws {
        let found = try await contents(size: 1024) { try $0.store("/f", letters("n", 512), at: 8) }
        var tears = [192, 256, 320, 384]
        tears += stride(from: 16, through: 136, by: 8)
        tears += stride(from: 392, through: 512, by: 8)
        var expected = [letters("o", 1024), letters("o", 8) + letters("n", 512) + letters("o", 504)]
        for tear in tears {
            expected.append(letters("o", 8) + letters("n", tear - 8) + letters("o", 1024 - tear))
            expected.append(letters("o", tear) + letters("n", 520 - tear) + letters("o", 504))
        }
        #expect(found == Set(expected))
    }

    @Test("a store is durable after writing back and then synchronising")
    func covers() async throws {
        let new = letters("n", 8) + letters("o", 24)
        @Sendable func store(_ fileSystem: InMemoryFileSystem) throws {
            try fileSystem.store("/f", letters("n", 8), at: 0)
        }
        #expect(try await contents { try store($0) } == [old, new])
        #expect(
            try await contents {
                try store($0)
                try $0.writeBack("/f")
            } == [old, new])
        #expect(
            try await contents {
                try store($0)
                try $0.sync("/f")
                try $0.sync("/f")
            } == [old, new])
        #expect(
            try await contents {
                try store($0)
                try $0.writeBack("/f")
                try $0.sync("/f", .data)
            } == [new])
        #expect(
            try await contents(.freshInode) {
                try store($0)
                try $0.sync("/f")
            } == [new])
        #expect(
            try await contents(.processKill) {
                try store($0)
                try $0.put("/another", [])
            } == [new])
    }

    @Test("a store after writing back is not covered")
    func laterStore() async throws {
        let found = try await contents {
            try $0.store("/f", letters("a", 8), at: 0)
            try $0.writeBack("/f")
            try $0.store("/f", letters("b", 8), at: 8)
            try $0.sync("/f")
        }
        let first = letters("a", 8) + letters("o", 24)
        #expect(found == [first, letters("a", 8) + letters("b", 8) + letters("o", 16)])
    }

    @Test("a synchronised write is durable together with the stores that it overwrote")
    func writtenOver() async throws {
        let found = try await contents {
            try $0.store("/f", letters("s", 24), at: 0)
            try $0.patch("/f", letters("w", 8), at: 8)
            try $0.sync("/f")
        }
        let w = letters("w", 8)
        #expect(found.allSatisfy { Array($0[8..<16]) == w })
        #expect(found.contains(letters("o", 8) + w + letters("o", 16)))
        #expect(found.contains(letters("s", 8) + w + letters("s", 8) + letters("o", 8)))
    }

    @Test("stores into different blocks reach the device in any order, those into one block in order")
    func order() async throws {
        let found = try await contents(size: 8192) {
            try $0.store("/f", letters("1", 1), at: 0)
            try $0.store("/f", letters("2", 1), at: 1)
            try $0.store("/f", letters("3", 1), at: 4096)
        }
        let seen = Set(found.map { [$0[0], $0[1], $0[4096]].map { String(UnicodeScalar($0)) }.joined() })
        #expect(seen == ["ooo", "1oo", "12o", "oo3", "1o3", "123"])
    }

    @Test("a store stays undetermined after writing back has failed")
    func failedWriteBack() async throws {
        let found = try await contents {
            try $0.store("/f", letters("n", 8), at: 0)
            $0.writeError = Broken("full")
            #expect(throws: FileSystemError.self) { [fileSystem = $0] in try fileSystem.writeBack("/f") }
            $0.writeError = nil
            try $0.writeBack("/f")
            try $0.sync("/f")
        }
        #expect(found == [old, letters("n", 8) + letters("o", 24)])
    }

    @Test("a process killed during a store leaves a part of that store, and all earlier ones")
    func killed() async throws {
        let explorer = CrashExplorer(
            profile: .processKill, marking: String.self,
            prepare: { try $0.put("/f", letters("o", 32)) },
            run: { fileSystem, _ in
                try fileSystem.store("/f", letters("a", 16), at: 0)
                try fileSystem.store("/f", letters("b", 16), at: 16)
            }, recover: { _, _ in })
        let found = Set(
            try await explorer.statesByHash(after: nil).values.map { image in
                String(decoding: try InMemoryFileSystem(image).content("/f") ?? [], as: UTF8.self)
            })
        let (o, a, b) = (
            String(repeating: "o", count: 8), String(repeating: "a", count: 8), String(repeating: "b", count: 8)
        )
        #expect(
            found == [
                o + o + o + o, a + o + o + o, o + a + o + o, a + a + o + o, a + a + b + o, a + a + o + b, a + a + b + b,
            ])
    }
}
