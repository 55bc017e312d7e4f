package import ForgeKVStore
import Logging

extension FileKVStore.Options {
    /// Options of a store that logs nothing, for what is broken on purpose.
    package static var silent: Self {
        Self(logger: Logger(label: "ForgeStorageTesting") { _ in SwiftLogNoOpLogHandler() })
    }
}
