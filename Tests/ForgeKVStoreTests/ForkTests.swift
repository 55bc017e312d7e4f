import ForgeFileSystem
import Foundation
import SystemPackage
import Testing

@testable import ForgeKVStore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The permitted calls of a child that was forked while a store was open, without executing another program.
@Suite("A forked child") struct ForkTests {
    @Test("is refused every write, and does not change the parent's store", arguments: [false, true])
    func refused(_ isShared: Bool) async throws {
        let directory = TemporaryDirectory()
        let path = directory.url.path
        await #expect(processExitsWith: .exitCode(0)) { [path = path as String, isShared = isShared as Bool] in
            let key = KVKey<Int>("a")
            var options = FileKVStore.Options()
            options.sharing = isShared ? .shared : .exclusive
            var store: FileKVStore? = try FileKVStore(at: URL(filePath: path), options: options)
            try store?.set(key, value: 1)
            var subscription = store?.subscribe(to: .prefix(""))
            let fork = unsafeBitCast(
                try #require(dlsym(nil, "fork")), to: (@convention(c) () -> Int32).self)
            let child = fork()
            if child == 0 {
                subscription = nil
                let changes: [(FileKVStore?) throws -> Void] = [
                    { try $0?.set(key, value: 99) }, { try $0?.remove(key) }, { try $0?.removeAll() },
                    { try $0?.compact() }, { try $0?.synchronize() },
                    { try $0?.batch { try $0.set(key, value: 98) } },
                ]
                for (number, change) in changes.enumerated() {
                    guard code({ try change(store) }) == .unavailable(.forked) else { _exit(Int32(number) + 1) }
                }
                guard store?.get(key) == 1 else { _exit(20) }
                store = nil
                guard code({ _ = try FileKVStore(at: URL(filePath: path)) })?.unavailability != nil else { _exit(21) }
                _exit(0)
            }
            for number in 2...500 { try store?.set(key, value: number) }
            var status: Int32 = 0
            _ = waitpid(child, &status, 0)
            try store?.set(KVKey<Int>("b"), value: 1)
            try store?.synchronize()
            if isShared {
                // The parent still observes the store.
                let page = try SystemFileSystem().readFile(POSIXPath(path + "/#shared"))
                let marks = page[SharedPageContent.observersOffset...].prefix(SharedPageContent.observersSize)
                guard marks.contains(where: { $0 != 0 }) else { exit(101) }
            }
            withExtendedLifetime(subscription) {}
            store = nil
            let again = try FileKVStore(at: URL(filePath: path))
            guard again.get(key) == 500, again.get(KVKey<Int>("b")) == 1 else { exit(100) }
            exit(status == 0 ? 0 : 1 + (status >> 8) & 0xFF)
        }
    }

    @Test("waits for no reader of its parent")
    func readers() async throws {
        await #expect(processExitsWith: .success) {
            let domain = ReadDomain()
            let isInside = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                let section = domain.enter()
                isInside.signal()
                sleep(600)
                section.leave()
            }
            isInside.wait()
            func isOver() -> Bool {
                var period = GracePeriod.begin()
                return period?.isOver() ?? false
            }
            guard !isOver() else { exit(2) }
            let fork = unsafeBitCast(
                try #require(dlsym(nil, "fork")), to: (@convention(c) () -> Int32).self)
            let child = fork()
            if child == 0 { _exit(isOver() ? 0 : 3) }
            var status: Int32 = 0
            _ = waitpid(child, &status, 0)
            exit((status >> 8) & 0xFF)
        }
    }
}
