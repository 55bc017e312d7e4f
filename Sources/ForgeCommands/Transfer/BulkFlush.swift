import ForgeStorage
import Foundation

/// How the many files of one command become durable: at once, at the end, where the system can wait for that.
enum BulkFlush {
    #if os(Linux)
    /// The durability of each file.
    static let durability = Durability.none
    #else
    /// The durability of each file: `sync(2)` does not wait for the device.
    static let durability = Durability.full
    #endif

    /// Waits until every file is on the device.
    static func flush() {
        #if os(Linux)
        sync()
        #endif
    }
}
