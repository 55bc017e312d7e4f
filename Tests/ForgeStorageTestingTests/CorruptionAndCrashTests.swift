import Crypto
import ForgeCrypt
import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Foundation
import Logging
import SystemPackage
import TestDepth
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

    @Test("a stale sector is kept of the open file, not of another one that has its name by now")
    func staleOfRenamed() throws {
        let fileSystem = try fileSystem(.on(.read, do: .corrupt(.staleSector(1))))
        let descriptor = try fileSystem.open("/f", .writeOnly)
        try fileSystem.put("other", at: "/g")
        try fileSystem.rename("/g", to: "/f")
        try fileSystem.writeFully(descriptor, from: [9], at: 600)
        #expect((fileSystem.base as? InMemoryFileSystem)?.openDescriptors.count == 1)
        try fileSystem.close(descriptor)
        #expect(try fileSystem.text(at: "/f") == "other")
    }

    @Test("a sector past the largest offset is no part of a file, and reads as zeros elsewhere")
    func farSectors() throws {
        let fileSystem = try fileSystem(
            .on(.read, do: .corrupt(.zeroedSector(.max))), .on(.read, do: .corrupt(.staleSector(.max))),
            .on(.read, do: .corrupt(.misdirectedSector(0, from: .max))))
        let descriptor = try fileSystem.open("/f", .writeOnly)
        try fileSystem.writeFully(descriptor, from: [9], at: 600)
        try fileSystem.close(descriptor)
        var expected = [UInt8](repeating: 0, count: 512) + Self.content()[512...]
        expected[600] = 9
        #expect(try fileSystem.readFile("/f") == expected)
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

@Suite("Devices that fill up")
struct FillingDeviceTests {
    @Test("what fits exactly is stored, and a call that another rule fails takes no space", arguments: [true, false])
    func exactFit(_ allocates: Bool) throws {
        let plan = FaultPlan([
            .fail(.write, call: 1, with: .ioError),
            .on(.write, .allocate, .createDirectory, do: .fillUp(afterBytes: 5)),
        ])
        let fileSystem = FaultingFileSystem(try memory { try $0.put("", at: "/f") }, plan: plan)
        let descriptor = try fileSystem.open("/f", .readWrite)
        #expect(throws: FileSystemError.self) { try fileSystem.writeFully(descriptor, from: [1, 2, 3]) }
        try fileSystem.writeFully(descriptor, from: [1, 2])
        try fileSystem.createDirectory("/d")
        if allocates {
            try fileSystem.allocate(descriptor, at: 2, length: 3)
        } else {
            try fileSystem.writeFully(descriptor, from: [3, 4, 5])
        }
        #expect(plan.firedCount == 1)
        let full = #expect(throws: FileSystemError.self) { try fileSystem.createDirectory("/e") }
        #expect(full?.errno == .noSpace)
        try fileSystem.close(descriptor)
        #expect(try fileSystem.readFile("/f") == (allocates ? [1, 2, 0, 0, 0] : [1, 2, 3, 4, 5]))
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

/// Each bit of a store's files, flipped as seen by a program that opens the store.
///
/// `DiskFileStore` and `DiskStorage` store plain bytes without checksums: there a flipped bit is a wrong byte, as in
/// any file.
@Suite("Stores on rotten disks")
struct FlippedBitTests {
    private static let secrets = ["a": "first secret", "b": "second secret"]
    private static let vault = URL(filePath: "/secrets/vault")
    private static let keyFile = URL(filePath: "/secrets/key")

    private static func openValues(_ fileSystem: any POSIXFileSystem) throws -> FileKVStore {
        var options = FileKVStore.Options(logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        options.reserveLittle()
        return try FileKVStore(at: "/kv", fileSystem: fileSystem, options: options)
    }

    /// Prime to 8, so that a quick run flips bits at every position in a byte.
    private let step = TestDepth.limit(13, deep: 1)

    private static func makeSecrets() throws -> InMemoryFileSystem {
        let fileSystem = InMemoryFileSystem()
        let key = try VaultKeyFile.loadOrCreate(at: keyFile, fileSystem: fileSystem)
        let vault = try VaultCrypt(at: vault, key: key, fileSystem: fileSystem)
        for (name, value) in secrets { try vault.set(value, for: CryptKey(key: name)) }
        return fileSystem
    }

    @Test("a flipped bit in a log yields the right value or an error")
    func values() throws {
        let expected = ["a": "first", "b": "second", "c": "third"]
        let report = try forEachFlippedBit(of: "/kv/log", every: step) {
            let fileSystem = InMemoryFileSystem()
            let store = try Self.openValues(fileSystem)
            for (name, value) in expected { try store.set(KVKey(name), value: value) }
            return fileSystem
        } _: { fileSystem in
            let store = try Self.openValues(fileSystem)
            for name in expected.keys {
                let value = try store.read(KVKey<String>(name))
                guard value == nil || value == expected[name] else { throw ConformanceViolation("\(name) is wrong") }
            }
            for name in try store.keys() {
                let value = try store.read(KVKey<String>(name))
                guard value == expected[name] else { throw ConformanceViolation("\(name) is \(value ?? "nothing")") }
            }
            guard try store.keys().count == expected.count || !store.damageReports().isEmpty else {
                throw ConformanceViolation("values are missing, and nothing says so")
            }
        }
        #expect(report.bitCount == report.readCount)
    }

    @Test("a vault with a flipped bit returns no secret, and none is overwritten")
    func vault() throws {
        let made = try Self.makeSecrets()
        let image = made.image
        let key = try #require(try VaultKeyFile.load(at: Self.keyFile, fileSystem: made))
        let report = try forEachFlippedBit(of: "/secrets/vault", every: step, on: { InMemoryFileSystem(image) }) {
            fileSystem in
            let vault = try VaultCrypt(at: Self.vault, key: key, fileSystem: fileSystem)
            for name in Self.secrets.keys {
                do {
                    _ = try vault.get(CryptKey<String>(key: name))
                } catch let error as CryptError where error.code == .tampered {
                    continue
                }
                throw ConformanceViolation("\(name) was shown")
            }
            do {
                try vault.set("new", for: CryptKey(key: "a"))
            } catch let error as CryptError where error.code == .tampered {
                return
            }
            throw ConformanceViolation("the vault was overwritten")
        }
        #expect(report.bitCount == report.readCount)
    }

    @Test("a key file with a flipped bit yields no key, and is not replaced")
    func keyFile() throws {
        let image = try Self.makeSecrets().image
        let report = try forEachFlippedBit(of: "/secrets/key", every: step, on: { InMemoryFileSystem(image) }) {
            fileSystem in
            do {
                _ = try VaultKeyFile.loadOrCreate(at: Self.keyFile, fileSystem: fileSystem)
            } catch let error as CryptError where error.code == .tampered {
                return
            }
            throw ConformanceViolation("a key came out of it")
        }
        #expect(report.bitCount == (48 * 8 + step - 1) / step && report.readCount == report.bitCount)
    }
}
