import Logging

/// A key-value store with a handler for problems of calls that cannot throw.
public protocol KVIssueReporting: KVStoring {
    /// Calls the handler, on the calling thread.
    func report(_ issue: KVStoreIssue)
}

extension KVStoring {
    /// Reports an issue to the handler of this store or of the store that it forwards reads to; logs it if there is
    /// none.
    func reportOrLog(_ issue: KVStoreIssue) {
        if let store = self as? any KVIssueReporting { return store.report(issue) }
        if let wrapper = self as? any KVReadForwarding { return wrapper.base.reportOrLog(issue) }
        Logger(label: "ForgeKVStore").error("\(issue)")
    }
}

extension AnyKVStore: KVIssueReporting {
    /// Reports an issue to the handler of the store; logs it if there is none.
    public func report(_ issue: KVStoreIssue) { base.reportOrLog(issue) }
}

extension AnyKVTransactionalStore: KVIssueReporting {}
