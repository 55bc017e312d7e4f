/// A key-value store with a handler for problems of calls that cannot throw.
public protocol KVIssueReporting: KVStoring {
    /// Calls the handler, on the calling thread.
    func report(_ issue: KVStoreIssue)
}
