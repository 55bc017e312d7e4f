import ForgeCoding

extension KVStoring {
    /// Stores the values of a source, each read back and compared.
    ///
    /// Values are stored one by one, in the order of their names. If that is interrupted, by a crash as well, a second call
    /// goes on where the first one ended: what is there and equal is passed over. The source is not changed.
    ///
    /// ```swift
    /// let report = try store.importValues(from: .userDefaults(suiteName: nil))
    /// for failure in report.failures { logger.warning("\(failure.error)") }
    /// ```
    ///
    /// - Parameters:
    ///   - source: Where the values are.
    ///   - existing: What happens to another value under the same name.
    /// - Returns: How many values were stored, and which were not, and why.
    /// - Throws: ``KVStoreError`` if the names of the source cannot be listed. What concerns one value is in the report.
    @discardableResult
    public func importValues(
        from source: KVImportSource, existing: KVExistingValue = .keep
    ) throws -> KVTransferReport {
        try KVTransfer(from: source, to: self, existing: existing).run()
    }

    /// Stores every value of this store in another one, each read back and compared; see ``importValues(from:existing:)``.
    @discardableResult
    public func exportValues(
        to destination: some KVStoring, existing: KVExistingValue = .keep
    ) throws -> KVTransferReport {
        try destination.importValues(from: .store(self), existing: existing)
    }

    /// All values as a JSON text: an object with a member for each name, in the order of the names.
    ///
    /// It is for people and for other programs: dates and bytes become texts, and come back as texts. A value of another
    /// version of its type than the first becomes `{"@schema": 2, "@value": …}`.
    ///
    /// - Parameter prettyPrinted: One line per element instead of all on one line.
    /// - Returns: The text, and what is not in it because it could not be read, and why.
    /// - Throws: ``KVStoreError`` if the keys cannot be listed.
    public func exportJSON(
        prettyPrinted: Bool = false
    ) throws -> (json: String, failures: [KVTransferReport.Failure]) {
        var members: [CodedValue.Entry] = []
        var failures: [KVTransferReport.Failure] = []
        for name in try keys().sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            do {
                guard let bytes = try rawValue(named: name) else { continue }
                members.append(.init(.string(name), try JSONMember.tree(of: bytes)))
            } catch let error as KVStoreError {
                failures.append(.init(name: name, error: error))
            } catch {
                let error = KVStoreError(.undecodable, .export, key: name, underlying: error)
                failures.append(.init(name: name, error: error))
            }
        }
        return (CodedValue.map(members).json(prettyPrinted: prettyPrinted), failures)
    }
}
