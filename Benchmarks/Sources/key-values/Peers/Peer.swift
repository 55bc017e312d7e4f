/// A store that FileKVStore is compared with.
protocol Peer: AnyObject {
    func get<Value: Sample>(_ name: String, as type: Value.Type) throws -> Value?
    func set<Value: Sample>(_ name: String, _ value: Value) throws

    /// Stores several values in one transaction, if supported.
    func setTogether<Value: Sample>(_ names: [String], _ values: [Value]) throws
}

/// A failed call of a peer's library.
struct PeerFailure: Error, CustomStringConvertible {
    let library: String
    let operation: String
    let code: Int32

    var description: String { "\(library): \(operation) gave \(code)" }
}

/// A value that differs from the stored one, which invalidates the measurement.
struct WrongValue: Error, CustomStringConvertible {
    let store: String
    let name: String

    var description: String { "\(store) gave another value of \(name) than was stored" }
}

/// Throws unless a store returns every value.
func check<Value: Sample>(
    _ store: String, _ names: some Sequence<String>, _ values: some Sequence<Value>,
    _ get: (String) throws -> Value?
) throws {
    for (name, value) in zip(names, values) where try get(name) != value { throw WrongValue(store: store, name: name) }
}
