import ForgeCoding
import ForgeFileSystem
import Foundation
import Synchronization

/// The file in which Foundation itself keeps a suite, which it does where there is no service of the system for that.
///
/// Its directory is that of the user's configuration files, as the XDG Base Directory Specification has it and as
/// `_CFXDGCreateConfigHomePath` of swift-corelibs-foundation finds it.
final class UserDefaultsFile: Sendable {
    private let path: String

    /// Whether the file could be read once, which is enough for reads: Foundation has its content then.
    private let wasRead = Atomic(false)

    init(ofSuite domain: String) {
        let environment = ProcessInfo.processInfo.environment
        var directory = environment["XDG_CONFIG_HOME"] ?? ""
        if !directory.hasPrefix("/") || directory == "/" { directory = (environment["HOME"] ?? "") + "/.config" }
        path = "\(directory)/\(domain).plist"
    }

    /// What the file holds, which is nothing if there is none; nil if it cannot be read, or is kept by a service.
    var content: [String: Any]? {
        guard case .content(let content) = read() else { return nil }
        return content
    }

    /// Why the file cannot be used; nil if it can, or a service keeps the suite. Foundation takes a file that it cannot
    /// read for an empty one, and replaces it.
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

    /// Whether it holds an object under a name, or none if there is no object.
    func holds(_ object: Any?, _ name: String) -> Bool {
        guard let content else { return false }
        guard let object, let held = content[name] else { return object == nil && content[name] == nil }
        return PropertyListValue.bytes(of: held) == PropertyListValue.bytes(of: object)
    }
}
