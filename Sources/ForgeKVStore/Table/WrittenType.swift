/// The type of a value in a batch, without the value.
struct WrittenType: Sendable {
    /// What is known of a cell with such a value.
    let cellType: CellType

    private let type: any Written.Type
    private let schema: (any AnyObject & Sendable)?

    /// Takes the value of the type out of what a layer stores; nil for a layer that stores values as they are.
    private var unwrap: (@Sendable (_ bytes: [UInt8]) -> Unwrapped)?

    /// What a layer finds in the bytes that it has stored.
    enum Unwrapped {
        /// The layer has not stored them.
        case foreign

        /// The layer takes its value for removed.
        case absent

        case value([UInt8])
    }

    init<Value>(_ key: KVKey<Value>) {
        cellType = .encoded(key)
        type = WrittenAs<Value>.self
        schema = key.schema
    }

    private init(_ type: WrittenType, _ unwrap: @escaping @Sendable ([UInt8]) -> Unwrapped) {
        // Nothing is known of a cell: it is checked by every write.
        cellType = .unknown
        self.type = type.type
        schema = type.schema
        self.unwrap = unwrap
    }

    /// The type of what a layer stores for a value of this type.
    func wrapped(_ unwrap: @escaping @Sendable (_ bytes: [UInt8]) -> Unwrapped) -> WrittenType {
        WrittenType(self, unwrap)
    }

    /// Whether a value can be read as this type. Runs the code of the type: no lock may be held.
    func canRead(_ bytes: [UInt8], _ name: KeyName) -> Bool {
        switch unwrap?(bytes) ?? .value(bytes) {
        case .foreign: false
        case .absent: true
        case .value(let bytes): type.canRead(bytes, name, schema)
        }
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
