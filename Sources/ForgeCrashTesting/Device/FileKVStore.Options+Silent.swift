package import ForgeKVStore
import Logging

extension FileKVStore.Options {
    /// Options without logging, for stores that are damaged on purpose.
    package static var silent: Self {
        Self(logger: Logger(label: "ForgeStorageTesting") { _ in SwiftLogNoOpLogHandler() })
    }
}
