import Dispatch
import ForgeCoding
import ForgeFileSystem
import Foundation
import Synchronization

/// What user defaults of a platform lose without reporting an error, and how to detect it.
struct UserDefaultsPlatform: Sendable {
    /// The size of a suite from which on the system keeps none of its changes; nil if there is no such limit.
    var suiteLimit: Int?

    /// The marker of a suite, given its name; nil if suites are always readable.
    var marker: (@Sendable (_ suite: String) -> any UserDefaultsMarker)?

    /// Calls a closure after changes of a key of a suite by any process, while the result exists; nil if the system does
    /// not announce them.
    var observeKey:
        (@Sendable (_ name: String, _ suite: String, _ onChange: @escaping @Sendable () -> Void) -> (any Sendable)?)?
}

#if !canImport(Darwin)
extension UserDefaultsPlatform {
    /// Foundation writes a file of any size, and no lock of a device makes it unreadable.
    static var current: UserDefaultsPlatform { UserDefaultsPlatform(suiteLimit: nil, marker: nil) }
}

extension UserDefaults {
    /// The objects of a suite: `persistentDomain` lacks those that were set since the last `synchronize`.
    func content(ofSuite domain: String) -> [String: Any] {
        synchronize()
        return persistentDomain(forName: domain) ?? [:]
    }
}
#endif

// MARK: Changes

/// The state that the stores of this process over one suite share.
///
/// `@unchecked Sendable`: the observer is used under the lock alone.
final class UserDefaultsSuite: @unchecked Sendable {
    /// The changes by the stores, and those by other code that were found.
    let changes = ChangeHub()

    /// Held by each call of a store over the suite. Recursive, because Foundation calls observers, code of the app, on the
    /// thread that changes user defaults, and they may use the stores of the suite.
    let lock = NSRecursiveLock()

    /// Exists while there is a subscription to the changes, which retains it.
    private(set) weak var observer: UserDefaultsObserver?

    private static let suites = Mutex<[[UInt8]: UserDefaultsSuite]>([:])

    static func named(_ name: String) -> UserDefaultsSuite {
        suites.withLock { suites in
            let bytes = Array(name.utf8)
            if let suite = suites[bytes] { return suite }
            let suite = UserDefaultsSuite()
            suites[bytes] = suite
            return suite
        }
    }

    /// The observer; a new one, which calls `check`, if there is none.
    func observing(_ check: @escaping @Sendable () -> Void) -> UserDefaultsObserver {
        lock.withLock {
            if let observer { return observer }
            let new = UserDefaultsObserver(check)
            observer = new
            return new
        }
    }
}

/// Calls a closure after user defaults were changed in this process, while it exists.
///
/// Foundation posts the notification on the thread that makes a change, before its call returns; a store then holds the
/// lock of its suite, other code maybe one of its own. The closure therefore runs on a queue, once for the notifications
/// that were posted meanwhile.
///
/// `@unchecked Sendable`: the variables are used under the lock of the suite, or by `deinit`, as the token is.
final class UserDefaultsObserver: @unchecked Sendable {
    /// Whether there was a subscription to a prefix.
    var hasPrefixes = false

    /// The values of the suite that subscriptions to a prefix know; nil if there was none, or the suite could not be
    /// read when the first one began.
    var reported: [KeyName: [UInt8]]?

    /// What observes keys, by their names in the suite.
    private var keys: [KeyName: any Sendable] = [:]

    private let onChange: @Sendable () -> Void
    private let token: any NSObjectProtocol

    init(_ check: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "ForgeKVStore.UserDefaultsObserver")
        let waiting = WaitingCheck()
        let onChange: @Sendable () -> Void = {
            guard !waiting.exists.exchange(true, ordering: .acquiringAndReleasing) else { return }
            queue.async {
                // First: a change that is made while the values are read causes another check.
                waiting.exists.store(false, ordering: .sequentiallyConsistent)
                check()
            }
        }
        self.onChange = onChange
        token = NotificationCenter.default.addObserver(
            forName: UserDefaults.didChangeNotification, object: nil, queue: nil
        ) { _ in onChange() }
    }

    /// Calls the closure also after changes of a key that `begin` starts to observe, unless it is observed already.
    func observe(_ name: KeyName, _ begin: (_ onChange: @escaping @Sendable () -> Void) -> (any Sendable)?) {
        if keys[name] == nil { keys[name] = begin(onChange) }
    }

    deinit { NotificationCenter.default.removeObserver(token) }

    private final class WaitingCheck: Sendable {
        let exists = Atomic(false)
    }
}

// MARK: The marker

/// A file beside a suite's values, which can be read only while the device is unlocked.
///
/// Before the first unlock after a start of the device, user defaults are unreadable and appear to be empty. A store
/// therefore writes a sentinel into the suite and creates this file. A suite without the sentinel, whose marker exists
/// and is unreadable, has values that cannot be read yet.
protocol UserDefaultsMarker: Sendable {
    var state: UserDefaultsMarkerState { get }

    /// Creates the file if it is absent. It is created by a later write if that is not possible now.
    func create()
}

enum UserDefaultsMarkerState: Sendable {
    case absent, readable, locked
}

/// A marker on a file system, at a path of the app's own.
struct UserDefaultsMarkerFile: UserDefaultsMarker {
    let path: POSIXPath
    let fileSystem: any POSIXFileSystem

    /// Creates the file, readable only while the device is unlocked.
    let creating: @Sendable (POSIXPath) throws -> Void

    var state: UserDefaultsMarkerState {
        do throws(FileSystemError) {
            _ = try fileSystem.readFile(path, maximumSizeInBytes: 4096)
            return .readable
        } catch {
            return error.isLocked ? .locked : .absent
        }
    }

    func create() {
        guard case .absent = state else { return }
        // While the device is locked, or has no space, a file of this class cannot be created.
        do { try creating(path) } catch {}
    }
}

/// The file in which Foundation stores a suite, on platforms without a system service for that.
///
/// Its directory is that of the user's configuration files, according to the XDG Base Directory Specification and
/// `_CFXDGCreateConfigHomePath` of swift-corelibs-foundation.
final class UserDefaultsFile: Sendable {
    private let path: String

    /// Whether the file was read once, which is sufficient for reads: Foundation then has its content.
    private let wasRead = Atomic(false)

    /// Returns when the call of this process that was writing files, if any, has written them.
    private let waitForWrites: @Sendable () -> Void

    init(
        ofSuite domain: String,
        // Foundation's `synchronize` holds one lock for all suites while it writes; each look-up takes it.
        waitForWrites: @escaping @Sendable () -> Void = {
            _ = UserDefaults(suiteName: "forge-none")?.object(forKey: "none")
        }
    ) {
        self.waitForWrites = waitForWrites
        let environment = ProcessInfo.processInfo.environment
        var directory = environment["XDG_CONFIG_HOME"] ?? ""
        if !directory.hasBytePrefix("/") || directory == "/" { directory = (environment["HOME"] ?? "") + "/.config" }
        path = "\(directory)/\(domain).plist"
    }

    /// The content of the file, empty if there is none; nil if it cannot be read, or a service keeps the suite.
    var content: [String: Any]? {
        guard case .content(let content) = read() else { return nil }
        return content
    }

    /// The reason why the file cannot be used; nil if it can, or a service keeps the suite. Foundation treats an
    /// unreadable file as empty, and replaces it.
    func problem(beforeWriting isWrite: Bool) -> KVStoreError.Code? {
        guard isWrite || !wasRead.load(ordering: .relaxed) else { return nil }
        if case .problem(let problem) = read() { return problem }
        wasRead.store(true, ordering: .relaxed)
        return nil
    }

    private enum Reading {
        case content([String: Any])
        case problem(KVStoreError.Code)
        case keptByService
    }

    private func read() -> Reading {
        #if canImport(Darwin)
        return .keptByService
        #else
        // `synchronize` of any suite writes what other code has set in this one, in place and maybe at this moment.
        for _ in 0..<3 {
            let reading = readOnce()
            guard case .problem(.damaged) = reading else { return reading }
            waitForWrites()
        }
        return readOnce()
        #endif
    }

    #if !canImport(Darwin)
    private func readOnce() -> Reading {
        let data: Data
        do {
            data = try Data(contentsOf: URL(POSIXPath(path)))
        } catch CocoaError.fileReadNoSuchFile {
            return .content([:])
        } catch {
            return .problem(.unavailable(.inputOutput))
        }
        do throws(CodingFailure) {
            return .content(try PropertyListParser.dictionary(in: data))
        } catch {
            return .problem(.damaged)
        }
    }
    #endif

    /// Whether the file contains this object under a name, or none if `object` is nil.
    func holds(_ object: Any?, _ name: String) -> Bool {
        guard let content else { return false }
        guard let object, let held = content[name] else { return object == nil && content[name] == nil }
        return PropertyListValue.bytes(of: held) == PropertyListValue.bytes(of: object)
    }
}

/// The names under which keys are stored in the user defaults.
///
/// A name of printable ASCII is stored unchanged, so that other code finds it. Foundation on Linux compares other names
/// by character and loses some, so every other name is stored as `#forge:` and its bytes, percent-encoded, and so is a
/// name that begins with `#forge:` or `#forge-set-aside:`, or is `#forge-readable`.
enum UserDefaultsName {
    private static let prefix = "#forge:"

    /// The prefix of the names of values that were set aside; a number, a colon and the name of the key follow.
    static let setAsidePrefix = "#forge-set-aside:"

    /// The name of a value that shows that the suite can be read; see ``UserDefaultsMarker``.
    static let sentinel = "#forge-readable"

    /// The name under which a key is stored.
    static func encoded(_ name: String) -> String {
        guard !isPlain(name) else { return name }
        var encoded = prefix
        for byte in name.utf8 {
            if isPrintable(byte), byte != UInt8(ascii: "%") {
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                encoded += byte < 16 ? "%0" : "%"
                encoded += String(byte, radix: 16)
            }
        }
        return encoded
    }

    /// The key for a stored name, whichever program stored it.
    static func decoded(_ name: String) -> String {
        guard let encoded = name.droppingBytePrefix(prefix) else { return name }
        var bytes: [UInt8] = []
        var rest = encoded.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return name }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        // Other code may have stored a name that begins like this.
        guard let decoded = String(validating: bytes, as: UTF8.self), self.encoded(decoded).hasSameBytes(as: name)
        else { return name }
        return decoded
    }

    /// Whether this is the name of a value that was set aside.
    static func isSetAside(_ name: String) -> Bool { name.hasBytePrefix(setAsidePrefix) }

    /// Whether this is the name of no key, but of a value that the store keeps for itself.
    static func isOwn(_ name: String) -> Bool { isSetAside(name) || name.utf8.elementsEqual(sentinel.utf8) }

    /// Whether a stored name names itself as a key path.
    static func isKeyPath(_ name: String) -> Bool {
        !name.hasBytePrefix("@") && !name.utf8.contains(UInt8(ascii: "."))
    }

    /// Whether a name is stored unchanged.
    static func isPlain(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isPrintable) && !name.hasBytePrefix(prefix) && !isOwn(name)
    }

    private static func isPrintable(_ byte: UInt8) -> Bool { (0x20...0x7E).contains(byte) }
}

extension UserDefaultsKVStore {
    /// The values that could not be decoded as the type that replaced them and are still in the suite, in order of
    /// replacement under each name. A value that no type can be decoded from has no bytes.
    ///
    /// - Throws: ``KVStoreError``.
    public func setAside() throws -> [(name: String, bytes: [UInt8])] {
        try using(.keys, nil) { (defaults) throws(KVStoreError) in
            defaults.synchronize()  // As for `removeAll`.
            return (defaults.persistentDomain(forName: domain) ?? [:])
                .compactMap { name, object in SetAsideName(name).map { ($0, object) } }
                .sorted { ($0.0.key, $0.0.number) < ($1.0.key, $1.0.number) }
                .map { (UserDefaultsName.decoded($0.0.key), PropertyListValue.bytes(of: $0.1) ?? []) }
        }
    }

    /// The name to set an object aside under; nil if it is set aside already, or is not in this suite and therefore
    /// kept.
    func setAsideName(of old: (name: String, object: Any), _ key: String, in defaults: UserDefaults) -> String? {
        defaults.synchronize()  // Otherwise the domain may lack the object; see `removeAll`.
        let content = defaults.persistentDomain(forName: domain) ?? [:]
        guard content[old.name] != nil else { return nil }
        var last = 0
        for (name, other) in content {
            guard let name = SetAsideName(name), name.key == key else { continue }
            if let bytes = PropertyListValue.bytes(of: other), bytes == PropertyListValue.bytes(of: old.object) {
                return nil
            }
            last = max(last, name.number)
        }
        return SetAsideName(key: key, number: last + 1).text
    }
}

/// The name of a value that was set aside: `#forge-set-aside:2:name`.
private struct SetAsideName {
    /// The key as it is stored in the suite.
    let key: String
    let number: Int

    init(key: String, number: Int) {
        self.key = key
        self.number = number
    }

    init?(_ text: String) {
        guard let (digits, key) = text.droppingBytePrefix(UserDefaultsName.setAsidePrefix)?.splitAtBytes(":"),
            let number = Int(digits)
        else { return nil }
        self.init(key: key, number: number)
    }

    var text: String { "\(UserDefaultsName.setAsidePrefix)\(number):\(key)" }
}
