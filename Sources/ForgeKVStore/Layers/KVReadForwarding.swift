/// A store that forwards its reads to another one, for stores that change only how values are written.
///
/// A wrapper declares what it forwards, and the compiler requires the rest: one that conforms only to this protocol
/// must implement every write, so it cannot forward one by mistake. <doc:Layering-stores> shows an example.
public protocol KVReadForwarding<Base>: KVStoring {
    associatedtype Base: KVStoring

    /// The base store.
    var base: Base { get }
}

extension KVReadForwarding {
    public func get<T>(_ key: KVKey<T>) -> T? { base.get(key) }

    public func read<T>(_ key: KVKey<T>) throws -> T? { try base.read(key) }

    public func contains<T>(_ key: KVKey<T>) -> Bool { base.contains(key) }
}

extension KVReadForwarding where Base: KVObservableStoring {
    public func observeChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation {
        base.observeChanges(handler)
    }
}

extension KVReadForwarding where Base: KVIssueReporting {
    public func report(_ issue: KVStoreIssue) { base.report(issue) }
}

extension KVReadForwarding where Base: KVRawStoring {
    public func keys() throws -> [String] { try base.keys() }

    public func rawValue(named name: String) throws -> [UInt8]? { try base.rawValue(named: name) }
}

extension KVReadForwarding where Base: KVTransactionalStoring {
    public func entry(named name: String) throws -> KVEntry? { try base.entry(named: name) }

    public func snapshot() throws -> KVSnapshot { try base.snapshot() }

    public func synchronize() throws { try base.synchronize() }

    public func observeRemoteChanges(_ handler: @escaping @Sendable ([String]?) -> Void) -> KVObservation? {
        base.observeRemoteChanges(handler)
    }
}
