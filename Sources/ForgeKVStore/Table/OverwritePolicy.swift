import ForgeCoding

/// Which values may be overwritten: those that can be read as the type that is written in their place. All others are
/// set aside first, so that no value is lost because it is unreadable.
enum OverwritePolicy {
    /// The value in a key's place if it has to be looked at before it is overwritten.
    ///
    /// Costs nothing to speak of if the value was written or read as the key's type before.
    @inline(__always)
    static func unverified(in entry: KeyEntry?, _ type: CellType) -> ValueCell? {
        guard let entry, entry.kind != EntryContent.emptyKind else { return nil }
        let content = entry.content
        guard let cell = content.ownCell else { return type.isKind(content.kind) ? nil : content.asCell }
        return cell._withUnsafeGuaranteedRef { $0.type.isSame(as: type) } ? nil : content.asCell
    }

    /// Whether a value can be read as a key's type. Runs the code of that type: no lock may be held.
    @inline(never)
    static func isReadable<Value>(_ bytes: [UInt8], as key: KVKey<Value>) -> Bool {
        if let mayOverwrite = key.schema?.mayOverwrite { return mayOverwrite(bytes) }
        do {
            _ = try ValueTable.decode(bytes, as: key)
            return true
        } catch {
            return false  // A read of the value reports why.
        }
    }

    static func isReadable<Value>(_ cell: ValueCell, as key: KVKey<Value>) -> Bool { isReadable(cell.bytes, as: key) }
}
