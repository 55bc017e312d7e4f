import ForgeCoding

/// Which values may be overwritten just so: those that can be read as the type that is written in their place. All others
/// are set aside first, for a value that nobody could read is not to be lost because of it.
enum Overwriting {
    /// The value in a key's place if it has to be looked at before it is overwritten.
    ///
    /// Costs nothing to speak of if the value was written or read as the key's type before.
    @inline(__always)
    static func suspect(in entry: KeyEntry?, _ type: CellType) -> ValueCell? {
        guard let entry, entry.kind != EntryContent.nothing else { return nil }
        let content = entry.content
        guard let cell = content.ownCell else { return type.isKind(content.kind) ? nil : content.asCell }
        return cell._withUnsafeGuaranteedRef { $0.type.isSame(as: type) } ? nil : content.asCell
    }

    /// Whether a value can be read as a key's type. Runs the code of that type: no lock may be held.
    @inline(never)
    static func isReadable<Value>(_ cell: ValueCell, as key: KVKey<Value>) -> Bool {
        do {
            _ = try ValueTable.decode(cell.bytes, as: key)
            return true
        } catch {
            return false  // Why is told to whoever reads the value.
        }
    }
}

/// The type of a value in a batch, without the value.
struct WrittenType: Sendable {
    /// What is known of a cell with such a value.
    let cellType: CellType

    private let type: any Written.Type
    private let schema: (any AnyObject & Sendable)?

    init<Value>(_ key: KVKey<Value>) {
        cellType = .encoded(key)
        type = WrittenAs<Value>.self
        schema = key.schema
    }

    /// Whether a value can be read as this type. Runs the code of the type: no lock may be held.
    func canRead(_ cell: ValueCell, _ name: KeyName) -> Bool { type.canRead(cell, name, schema) }
}

/// A type of values, so that it can be kept without a box.
private protocol Written: Sendable {
    static func canRead(_ cell: ValueCell, _ name: KeyName, _ schema: AnyObject?) -> Bool
}

private enum WrittenAs<Value: Codable & Sendable>: Written {
    static func canRead(_ cell: ValueCell, _ name: KeyName, _ schema: AnyObject?) -> Bool {
        let schema = schema.map { unsafeDowncast($0, to: KVSchema<Value>.self) }
        return Overwriting.isReadable(cell, as: KVKey(name, schema))
    }
}
