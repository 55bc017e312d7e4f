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
                    try store.synchronize()
                }
            }
        } catch is CancellationError {
            // The services after this one have stopped, or the group was cancelled.
        }
        try store.close()
    }
}
