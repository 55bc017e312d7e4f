import ForgeStorage
import ServiceLifecycle

/// Makes writes durable every second, and closes the store at shutdown.
struct StoreService: Service {
    let store: FileKVStore

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown {
                while true {
                    try await Task.sleep(for: .seconds(1))
                    try await store.flush()
                }
            }
        } catch is CancellationError {
            // The services after this one have stopped, or the group was cancelled.
        }
        try await store.shutDown()
        // A graceful shutdown cancels only the flushes.
        if Task.isCancelled { throw ShutdownForced() }
    }
}

/// The services were cancelled instead of being stopped one after the other.
struct ShutdownForced: Error, CustomStringConvertible {
    var description: String { "the shutdown was forced: requests that had begun were cancelled" }
}
