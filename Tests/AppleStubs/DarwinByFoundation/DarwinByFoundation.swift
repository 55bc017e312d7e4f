// What Foundation has on Apple's platforms and not on Linux, and what it exports there of the C library.
// `Scripts/check-apple.py` adds the import to the copies that it checks. Nothing here is ever run.
public import Foundation

public var SIGEMT: Int32 { 7 }

public var SO_NOSIGPIPE: Int32 { 0x1022 }

// With the type that Linux gives to the constants.
public func getrlimit(_ resource: __rlimit_resource, _ limit: UnsafeMutablePointer<rlimit>!) -> Int32 { 0 }
public func setrlimit(_ resource: __rlimit_resource, _ limit: UnsafePointer<rlimit>!) -> Int32 { 0 }
public func socket(_ domain: Int32, _ type: __socket_type, _ number: Int32) -> Int32 { 0 }

public var POSIX_SPAWN_CLOEXEC_DEFAULT: Int32 { 0x4000 }

public typealias FileActions = UnsafeMutablePointer<posix_spawn_file_actions_t?>
public typealias SpawnAttributes = UnsafeMutablePointer<posix_spawnattr_t?>

// With optional structures, as Darwin has pointers.
@discardableResult
public func posix_spawn_file_actions_init(_ actions: FileActions!) -> Int32 { 0 }
@discardableResult
public func posix_spawn_file_actions_destroy(_ actions: FileActions!) -> Int32 { 0 }
@discardableResult
public func posix_spawn_file_actions_adddup2(_ actions: FileActions!, _ from: Int32, _ to: Int32) -> Int32 { 0 }
@discardableResult
public func posix_spawn_file_actions_addopen(
    _ actions: FileActions!, _ number: Int32, _ path: UnsafePointer<CChar>!, _ flags: Int32, _ mode: mode_t
) -> Int32 { 0 }
@discardableResult
public func posix_spawn_file_actions_addchdir_np(_ actions: FileActions!, _ path: UnsafePointer<CChar>!) -> Int32 { 0 }
@discardableResult
public func posix_spawnattr_init(_ attributes: SpawnAttributes!) -> Int32 { 0 }
@discardableResult
public func posix_spawnattr_destroy(_ attributes: SpawnAttributes!) -> Int32 { 0 }
@discardableResult
public func posix_spawnattr_setsigdefault(
    _ attributes: SpawnAttributes!, _ set: UnsafePointer<sigset_t>!
) -> Int32 { 0 }
@discardableResult
public func posix_spawnattr_setsigmask(_ attributes: SpawnAttributes!, _ set: UnsafePointer<sigset_t>!) -> Int32 { 0 }
@discardableResult
public func posix_spawnattr_setflags(_ attributes: SpawnAttributes!, _ flags: Int16) -> Int32 { 0 }
@discardableResult
public func posix_spawnp(
    _ id: UnsafeMutablePointer<pid_t>!, _ file: UnsafePointer<CChar>!,
    _ actions: UnsafePointer<posix_spawn_file_actions_t?>!, _ attributes: UnsafePointer<posix_spawnattr_t?>!,
    _ arguments: UnsafePointer<UnsafeMutablePointer<CChar>?>!,
    _ environment: UnsafePointer<UnsafeMutablePointer<CChar>?>!
) -> Int32 { 0 }

public struct HandlerOfSignal {
    public var __sa_handler: (@convention(c) (Int32) -> Void)?
}

extension sigaction {
    public var __sigaction_u: HandlerOfSignal { HandlerOfSignal() }
}

extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { nil }
}

public typealias NSKeyValueChangeKey = NSObject.StubOfKeyValueChangeKey

extension NSObject {
    public struct StubOfKeyValueChangeKey: Hashable {}

    public struct StubOfKeyValueObservingOptions: OptionSet {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
    }

    public func addObserver(
        _ observer: NSObject, forKeyPath keyPath: String, options: StubOfKeyValueObservingOptions,
        context: UnsafeMutableRawPointer?
    ) {}
}
