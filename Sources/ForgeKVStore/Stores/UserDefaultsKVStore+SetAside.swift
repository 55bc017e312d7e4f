import Foundation

extension UserDefaultsKVStore {
    /// The values that could not be decoded as the type that replaced them and are still in the suite, in order of
    /// replacement under each name. A value that no type can be decoded from has no bytes.
    ///
    /// - Throws: ``KVStoreError``.
    public func setAside() throws -> [(name: String, bytes: [UInt8])] {
        try using(.keys, nil) { (defaults) throws(KVStoreError) in
            (defaults.persistentDomain(forName: domain) ?? [:])
                .compactMap { name, object in SetAsideName(name).map { ($0, object) } }
                .sorted { ($0.0.key, $0.0.number) < ($1.0.key, $1.0.number) }
                .map { (UserDefaultsName.decoded($0.0.key), PropertyListValue.bytes(of: $0.1) ?? []) }
        }
    }

    /// The name to set an object aside under; nil if it is set aside already, or is not in this suite and therefore
    /// kept.
    func setAsideName(of object: Any?, _ key: String, in defaults: UserDefaults) -> String? {
        let content = defaults.persistentDomain(forName: domain) ?? [:]
        guard let object, content[key] != nil else { return nil }
        var last = 0
        for (name, other) in content {
            guard let name = SetAsideName(name), name.key == key else { continue }
            if let bytes = PropertyListValue.bytes(of: other), bytes == PropertyListValue.bytes(of: object) {
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
        guard UserDefaultsName.isSetAside(text) else { return nil }
        let parts = text.dropFirst(UserDefaultsName.setAsidePrefix.count).split(
            separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let number = Int(parts[0]) else { return nil }
        self.init(key: String(parts[1]), number: number)
    }

    var text: String { "\(UserDefaultsName.setAsidePrefix)\(number):\(key)" }
}
