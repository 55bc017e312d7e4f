/// A store that FileKVStore is compared with.
protocol Peer: AnyObject {
    func get<Value: Sample>(_ name: String, as type: Value.Type) throws -> Value?
    func set<Value: Sample>(_ name: String, _ value: Value) throws

    /// Stores several values in one step, if it can.
    func setTogether<Value: Sample>(_ names: [String], _ values: [Value]) throws
}

/// A call to a peer's library that failed.
struct PeerFailure: Error, CustomStringConvertible {
    let library: String
    let operation: String
    let code: Int32

    var description: String { "\(library): \(operation) gave \(code)" }
}

/// A value that was not what was stored: figures of a store that gives wrong values prove nothing.
struct WrongValue: Error, CustomStringConvertible {
    let store: String
    let name: String

    var description: String { "\(store) gave another value of \(name) than was stored" }
}

/// Throws unless a store gives back every value.
func check<Value: Sample>(
    _ store: String, _ names: some Sequence<String>, _ values: some Sequence<Value>,
    _ get: (String) throws -> Value?
) throws {
    for (name, value) in zip(names, values) where try get(name) != value { throw WrongValue(store: store, name: name) }
}
