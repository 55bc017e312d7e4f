/// The type of a value in a batch, without the value.
struct WrittenType: Sendable {
    /// The type of a cell with such a value.
    let cellType: CellType

    private let type: any Written.Type
    private let schema: (any AnyObject & Sendable)?

    init<Value>(_ key: KVKey<Value>) {
        cellType = .encoded(key)
        type = WrittenAs<Value>.self
        schema = key.schema
    }

    /// Whether a value can be read as this type. Runs the code of the type: no lock may be held.
    func canRead(_ bytes: [UInt8], _ name: KeyName) -> Bool {
        type.canRead(bytes, name, schema)
    }
}

/// A type of values, so that it can be kept without a box.
private protocol Written: Sendable {
    static func canRead(_ bytes: [UInt8], _ name: KeyName, _ schema: AnyObject?) -> Bool
}

private enum WrittenAs<Value: Codable & Sendable>: Written {
    static func canRead(_ bytes: [UInt8], _ name: KeyName, _ schema: AnyObject?) -> Bool {
        let schema = schema.map { unsafeDowncast($0, to: KVSchema<Value>.self) }
        return OverwritePolicy.isReadable(bytes, as: KVKey(name, schema))
    }
}
