/// A key-value store with a handler for problems of calls that cannot throw.
public protocol KVIssueReporting: KVStoring {
    /// Calls the handler, on the calling thread.
    func report(_ issue: KVStoreIssue)
}

extension KVStoring {
    /// This store as one with a handler, if it has one at run time: itself, or the one that it forwards reads to.
    var issueReporting: (any KVIssueReporting)? {
        if let store = self as? any KVIssueReporting { return store }
        if let eraser = self as? AnyKVStore { return eraser.base.issueReporting }
        return (self as? any KVReadForwarding)?.base.issueReporting
    }
}
