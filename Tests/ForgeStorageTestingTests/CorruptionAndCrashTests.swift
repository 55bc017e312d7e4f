import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@Suite("Corrupted bytes")
struct CorruptionTests {
    private static func content() -> [UInt8] { (0..<1500).map { UInt8($0 % 251) } }

    private func fileSystem(_ rules: FaultRule...) throws -> FaultingFileSystem {
        let base = InMemoryFileSystem()
        let descriptor = try base.open("/f", .writeOnly, options: [.create])
        try base.writeFully(descriptor, from: Self.content())
        try base.close(descriptor)
        return FaultingFileSystem(base, plan: FaultPlan(rules))
    }

    @Test("a flipped bit, a zeroed sector and a misdirected one affect reads, not the stored bytes")
    func rot() throws {
        let cases: [(FileCorruption, ([UInt8]) -> [UInt8])] = [
            (
                .flippedBit(offset: 700, bit: 3),
                {
                    var all = $0; all[700] ^= 8; return all
                }
            ),
            (.zeroedSector(1), { Array($0[..<512] + [UInt8](repeating: 0, count: 512) + $0[1024...]) }),
            (.misdirectedSector(0, from: 1), { Array($0[512..<1024] + $0[512...]) }),
            (.misdirectedSector(0, from: 2), { Array($0[1024...] + [UInt8](repeating: 0, count: 36) + $0[512...]) }),
        ]
        for (corruption, expected) in cases {
            let fileSystem = try fileSystem(.on(.read, name: "rot", do: .corrupt(corruption)))
            #expect(try fileSystem.readFile("/f") == expected(Self.content()))
            #expect(fileSystem.log.text.contains("! \(corruption)"))
            fileSystem.plan.lift("rot")
            #expect(try fileSystem.readFile("/f") == Self.content())
            try fileSystem.plan.requireAllFired()
        }
    }

    @Test("corruption applies at the file offset too, and only to the bytes read")
    func ownOffset() throws {
        let fileSystem = try fileSystem(.on(.read, do: .corrupt(.flippedBit(offset: 5, bit: 0))))
        let descriptor = try fileSystem.open("/f")
        defer { fileSystem.discard(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 4)
        _ = try bytes.withUnsafeMutableBytes { try fileSystem.read(descriptor, into: $0, at: nil) }
        #expect(bytes == [0, 1, 2, 3])
        #expect(throws: DeadFaultRules.self) { try fileSystem.plan.requireAllFired() }
        _ = try bytes.withUnsafeMutableBytes { try fileSystem.read(descriptor, into: $0, at: nil) }
        #expect(bytes == [4, 4, 6, 7])
        try fileSystem.plan.requireAllFired()
    }

    @Test("a stale sector reads as before its last write")
    func stale() throws {
        let fileSystem = try fileSystem(.on(.read, matching: "/f", do: .corrupt(.staleSector(1))))
        #expect(try fileSystem.readFile("/f") == Self.content())
        let descriptor = try fileSystem.open("/f", .writeOnly)
        try fileSystem.writeFully(descriptor, from: [9, 9], at: 511)
        try fileSystem.close(descriptor)
        var expected = Self.content()
        expected[511] = 9
        #expect(try fileSystem.readFile("/f") == expected)
        try fileSystem.plan.requireAllFired()
        expected[512] = 9
        #expect(try fileSystem.base.readFile("/f") == expected)
    }

    @Test("each bit of a file is flipped in turn")
    func everyBit() throws {
        let report = try forEachFlippedBit(of: "/f") {
            try memory { try $0.put("value", at: "/f") }
        } _: { fileSystem in
            guard try fileSystem.text(at: "/f") != "value" else { throw ConformanceViolation("not flipped") }
        }
        #expect(report.bitCount == 40)
        #expect(report.readCount == 40)
        #expect(throws: ConformanceViolation.self) {
            try forEachFlippedBit(of: "/f", on: { try memory { try $0.put("v", at: "/f") } }) { fileSystem in
                guard try fileSystem.text(at: "/f") == "v" else { throw ConformanceViolation("wrong value") }
            }
        }
        #expect(throws: NothingFailed.self) {
            try forEachFlippedBit(of: "/f", on: { try memory { try $0.put("v", at: "/f") } }) { _ in }
        }
    }
}

@Suite("Planned crashes of the process")
struct PlannedCrashTests {
    @Test("after a crash every call fails and open files are closed, and a new process can continue")
    func crashes() throws {
        let base = try memory { try $0.put("old", at: "/f") }
        let plan = FaultPlan([.on(.rename, do: .crash())])
        let fileSystem = FaultingFileSystem(base, plan: plan)
        let error = #expect(throws: FileSystemError.self) { try fileSystem.replace("/f", with: "new") }
        #expect(error?.underlying is ProcessCrashed)
        #expect(error?.description.hasSuffix("the process was crashed on purpose") == true)
        #expect(fileSystem.isCrashed)
        #expect(base.openDescriptors.isEmpty)
        #expect(throws: FileSystemError.self) { try fileSystem.status("/") }
        #expect(try base.readFile("/f") == Array("old".utf8))
        #expect(try base.leftovers().count == 1)
        fileSystem.restart()
        #expect(!fileSystem.isCrashed)
        #expect(try fileSystem.text(at: "/f") == "old")
        try plan.requireAllFired()
    }

    @Test("a crash after the effect leaves the effect")
    func crashesAfterwards() throws {
        let base = try memory { try $0.put("old", at: "/f") }
        let fileSystem = FaultingFileSystem(base, plan: FaultPlan([.on(.rename, do: .crash(effect: .done))]))
        #expect(throws: FileSystemError.self) { try fileSystem.replace("/f", with: "new") }
        #expect(try base.readFile("/f") == Array("new".utf8))
    }

    @Test("a crash frees the locks of the process on any file system")
    func freesLocks() throws {
        let base = try memory { try $0.put("", at: "/lock") }
        // A wrapper hides that the base is in memory.
        let fileSystem = FaultingFileSystem(FaultingFileSystem(base))
        let descriptor = try fileSystem.open("/lock")
        try fileSystem.lock(descriptor, .exclusive, waiting: true)
        fileSystem.crash()
        #expect(base.openDescriptors.isEmpty)
        let other = try base.open("/lock")
        try base.lock(other, .exclusive, waiting: false)
        #expect(throws: FileSystemError.self) { try fileSystem.lock(descriptor, .unlocked, waiting: true) }
    }
}
