import Foundation

/// The file in which Foundation itself keeps a suite, which it does where there is no service of the system for that.
///
/// Its directory is that of the user's configuration files, as the XDG Base Directory Specification has it and as
/// `_CFXDGCreateConfigHomePath` of swift-corelibs-foundation finds it.
struct UserDefaultsFile {
    private let path: String

    init(ofSuite domain: String) {
        let environment = ProcessInfo.processInfo.environment
        var directory = environment["XDG_CONFIG_HOME"] ?? ""
        if !directory.hasPrefix("/") || directory == "/" { directory = (environment["HOME"] ?? "") + "/.config" }
        path = "\(directory)/\(domain).plist"
    }

    /// What the file holds, which is nothing if there is none; nil if it cannot be read, or is kept by a service.
    var content: [String: Any]? {
        #if canImport(Darwin)
        return nil
        #else
        do {
            let data = try Data(contentsOf: URL(fileURLWithPath: path))
            return try PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any]
        } catch CocoaError.fileReadNoSuchFile {
            return [:]
        } catch {
            return nil
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
