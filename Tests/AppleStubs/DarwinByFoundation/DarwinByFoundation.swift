// What Foundation has on Apple's platforms and not on Linux, and what it exports there of the C library.
// `Scripts/check-apple.py` adds the import to the copies that it checks. Nothing here is ever run.
public import Foundation

public var SIGEMT: Int32 { 7 }

public var SO_NOSIGPIPE: Int32 { 0x1022 }

// With the type that Linux gives to the constants.
public func getrlimit(_ resource: __rlimit_resource, _ limit: UnsafeMutablePointer<rlimit>!) -> Int32 { 0 }
public func setrlimit(_ resource: __rlimit_resource, _ limit: UnsafePointer<rlimit>!) -> Int32 { 0 }
public func socket(_ domain: Int32, _ type: __socket_type, _ number: Int32) -> Int32 { 0 }

public struct HandlerOfSignal {
    public var __sa_handler: (@convention(c) (Int32) -> Void)?
}

extension sigaction {
    public var __sigaction_u: HandlerOfSignal { HandlerOfSignal() }
}

extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { nil }
}
