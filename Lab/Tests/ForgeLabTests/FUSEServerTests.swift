#if os(Linux)
import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage
import Testing

@testable import forge_lab

/// The server's replies to hand-made requests, without a kernel.
struct FUSEServerTests {
    typealias Operation = FUSEProtocol.Operation

    @Test("a file is created, written, read and removed, and no descriptor stays open")
    func lifeOfAFile() throws {
        let kernel = try Kernel()
        let created = try kernel.ask(.create, .u32(0o102), .u32(0o644), .u64(0), .name("f"))
        let node = created.u64(0)
        let handle = created.u64(FUSEProtocol.entrySize)
        #expect(created.error == 0)
        let bytes = Array("content".utf8)
        let write: [Kernel.Field] = [.u64(handle), .u64(3), .u32(7), .u32(0), .u64(0), .u32(2), .u32(0), .bytes(bytes)]
        #expect(try kernel.ask(.write, write, node: node).u32(0) == 7)
        let read: [Kernel.Field] = [.u64(handle), .u64(0), .u32(100), .u32(0), .u64(0), .u32(0), .u32(0)]
        #expect(try kernel.ask(.read, read, node: node).body == [0, 0, 0] + bytes)
        #expect(try kernel.ask(.unlink, .name("f")).error == 0)
        #expect(try kernel.ask(.getAttributes, [.u32(0), .u32(0), .u64(0)], node: node).u64(16) == node)
        #expect(try kernel.ask(.release, [.u64(handle), .u64(0), .u64(0)], node: node).error == 0)
        #expect(kernel.answers(.forget, [.u64(1)], node: node).isEmpty)
        #expect(kernel.fileSystem.openDescriptors.count == 1)
        #expect(try kernel.fileSystem.usage().inodeCount == 1)
    }

    @Test("nodes looked up twice are forgotten twice, singly or in batches")
    func forgetting() throws {
        let kernel = try Kernel()
        let node = try kernel.ask(.makeDirectory, .u32(0o755), .u32(0), .name("d")).u64(0)
        #expect(try kernel.ask(.lookUp, .name("d")).u64(0) == node)
        _ = kernel.answers(.forget, [.u64(1)], node: node)
        #expect(kernel.fileSystem.openDescriptors.count == 2)
        _ = kernel.answers(.batchForget, [.u32(2), .u32(0), .u64(node), .u64(1), .u64(99), .u64(1)])
        #expect(kernel.fileSystem.openDescriptors.count == 1)
        #expect(
            try kernel.ask(.getAttributes, [.u32(0), .u32(0), .u64(0)], node: node).error == -Errno.staleNFSFileHandle
                .rawValue)
    }

    @Test("a listing continues at its offset although names are removed meanwhile")
    func listing() throws {
        let kernel = try Kernel()
        for name in ["a", "b", "c", "d"] {
            _ = try kernel.ask(.makeNode, .u32(0o100644), .u64(0), .u32(0), .name(name))
        }
        let handle = try kernel.ask(.openDirectory, .u64(0)).u64(0)
        /// The names that fit, and the offset of the last of them.
        func list(from offset: UInt64, size: UInt32) throws -> (names: [String], end: UInt64) {
            let fields: [Kernel.Field] = [.u64(handle), .u64(offset), .u32(size), .u32(0), .u64(0), .u64(0)]
            let reply = try kernel.ask(.readDirectory, fields)
            var names: [String] = []
            var end = offset
            var position = 0
            while position < reply.body.count {
                let count = Int(reply.u32(position + 16))
                end = reply.u64(position + 8)
                names.append(String(decoding: reply.body[position + 24..<position + 24 + count], as: UTF8.self))
                position += 24 + (count + 7) / 8 * 8
            }
            return (names, end)
        }
        let first = try list(from: 0, size: 4 * 32)
        #expect(first.names == [".", "..", "a", "b"])
        _ = try kernel.ask(.unlink, .name("a"))
        let second = try list(from: first.end, size: 4096)
        #expect(second.names == ["c", "d"])
        #expect(try list(from: second.end, size: 4096).names == [])
        #expect(try list(from: .max, size: 4096).names == [])
        #expect(try list(from: 0, size: 4096).names == [".", "..", "b", "c", "d"])
    }

    @Test("a lock request is answered when the lock is free or a signal arrives")
    func locks() throws {
        let kernel = try Kernel()
        let node = try kernel.ask(.makeNode, .u32(0o100644), .u64(0), .u32(0), .name("f")).u64(0)
        let handles = try (0..<3).map { _ in try kernel.ask(.open, [.u32(2), .u32(0)], node: node).u64(0) }
        func lock(_ operation: Operation, _ handle: UInt64, _ type: UInt32) -> [Kernel.Reply] {
            kernel.answers(
                operation, [.u64(handle), .u64(0), .u64(0), .u64(0), .u32(type), .u32(0), .u32(1), .u32(0)], node: node)
        }
        #expect(lock(.setLock, handles[0], 1).map(\.error) == [0])
        #expect(lock(.setLock, handles[1], 0).map(\.error) == [-Errno.resourceTemporarilyUnavailable.rawValue])
        #expect(lock(.setLockWaiting, handles[1], 1).isEmpty)
        let first = kernel.lastUnique
        #expect(lock(.setLockWaiting, handles[2], 1).isEmpty)
        let second = kernel.lastUnique
        let interrupted = kernel.answers(.interrupt, [.u64(first)])
        #expect(interrupted.map(\.error) == [-Errno.interrupted.rawValue])
        #expect(interrupted.map(\.unique) == [first])
        let released = kernel.answers(.release, [.u64(handles[0]), .u64(0), .u64(0)], node: node)
        #expect(released.map(\.error) == [0, 0])
        #expect(released.map(\.unique) == [kernel.lastUnique, second])
    }

    @Test("the reply to any request bytes is well-formed", arguments: 0..<50)
    func hostileRequests(seed: UInt64) throws {
        let kernel = try Kernel()
        var generator = SplitMix64(seed: seed)
        for _ in 0..<200 {
            let operation = UInt32.random(in: 0...60, using: &generator)
            let count = Int.random(in: 0...120, using: &generator)
            // Small numbers are likely to be valid nodes, handles and lengths.
            let body = (0..<count).map { _ in
                Bool.random(using: &generator) ? 0 : UInt8.random(in: 0...5, using: &generator)
            }
            let replies = kernel.answers(operation, [.bytes(body)], node: UInt64.random(in: 0...4, using: &generator))
            // Requests may close a node's descriptor, so any error number is acceptable.
            for reply in replies { #expect(reply.error <= 0 && reply.error > -200, "seed \(seed)") }
        }
        #expect(FUSEServer.answerCount(kernel, bytes: [1, 2, 3]) == 0)
        #expect(FUSEServer.answerCount(kernel, bytes: [UInt8](repeating: 0xFF, count: 80)) == 0)
    }

    @Test("supplementary groups are parsed")
    func groups() {
        let status = "Name:\tGroups: 1\nGid:\t5\t5\t5\t5\nGroups:\t4 24 1000 \nNStgid:\t1\n"
        #expect(SupplementaryGroups.parse(Array(status.utf8)).map(\.rawValue) == [4, 24, 1000])
        #expect(SupplementaryGroups.parse([]).isEmpty)
        #expect(SupplementaryGroups.of(processID: 0).isEmpty)
    }
}

extension FUSEServer {
    static func answerCount(_ kernel: Kernel, bytes: [UInt8]) -> Int {
        bytes.withUnsafeBytes { kernel.server.answer($0).count }
    }
}
#endif
