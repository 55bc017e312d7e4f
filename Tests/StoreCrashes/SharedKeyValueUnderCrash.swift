package import ForgeFileSystem
import ForgeKVStore
import ForgeStorageTesting
import Synchronization

/// Two processes that share a ``FileKVStore`` and make their calls in turn.
package struct SharedKeyValueUnderCrash: StoreUnderCrash {
    package static let vocabulary = KeyValueUnderCrash.vocabulary
    package static let removesAllAtOnce = true

    private let processes: Processes

    private final class Processes: Sendable {
        let stores: [KeyValueUnderCrash]
        private let turn = Atomic(0)

        init(_ stores: [KeyValueUnderCrash]) {
            self.stores = stores
        }

        var next: KeyValueUnderCrash { stores[turn.wrappingAdd(1, ordering: .relaxed).oldValue % stores.count] }
    }

    package init(on fileSystem: InMemoryFileSystem) throws {
        // The first store treats every process in the page as dead, the second as alive.
        let stores = try [fileSystem, fileSystem.process()].enumerated().map { index, process in
            try KeyValueUnderCrash(on: process) { options in
                options.sharing = .shared
                options.processes = ProcessTable(own: ProcessIdentity(id: Int32(index + 1))) { _ in index == 1 }
            }
        }
        processes = Processes(stores)
    }

    package static func isDurable(_ call: StoreCall) -> Bool { KeyValueUnderCrash.isDurable(call) }

    package func perform(_ call: StoreCall) throws { try processes.next.perform(call) }

    package func contents() throws -> [String: StoreValue] {
        let contents = try processes.stores.map { try $0.contents() }
        guard contents.allSatisfy({ $0 == contents[0] }) else {
            throw ConformanceViolation("two processes see different values: \(contents)")
        }
        return contents[0]
    }

    package func requireUndamaged() throws {
        for store in processes.stores { try store.requireUndamaged() }
    }
}
