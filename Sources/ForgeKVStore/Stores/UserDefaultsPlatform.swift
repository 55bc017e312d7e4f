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
}

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

    init(ofSuite domain: String) {
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
        let data: Data
        do {
            data = try Data(contentsOf: URL(fileURLWithPath: path))
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
        #endif
    }

    /// Whether the file contains this object under a name, or none if `object` is nil.
    func holds(_ object: Any?, _ name: String) -> Bool {
        guard let content else { return false }
        guard let object, let held = content[name] else { return object == nil && content[name] == nil }
        return PropertyListValue.bytes(of: held) == PropertyListValue.bytes(of: object)
    }
}
