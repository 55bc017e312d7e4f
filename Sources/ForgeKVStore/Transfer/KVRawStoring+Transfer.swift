import ForgeCoding

extension KVRawStoring {
    /// Imports the values of a source, verifying each by reading it back.
    ///
    /// Values are stored one by one, in the order of their names. After an interruption or a crash, a second call
    /// continues: it skips values that are already equal. The source is not changed.
    ///
    /// ```swift
    /// let report = try store.importValues(from: .userDefaults(suiteName: nil))
    /// for failure in report.failures { logger.warning("\(failure.error)") }
    /// ```
    ///
    /// - Parameters:
    ///   - source: The source of the values.
    ///   - existing: The treatment of different values under the same name.
    /// - Returns: The number of values stored, and the values that were not stored with the reasons.
    /// - Throws: ``KVStoreError`` if the names of the source cannot be listed. Failures of single values are in the
    ///   report.
    @discardableResult
    public func importValues(
        from source: KVImportSource, existing: KVExistingValue = .keep
    ) throws -> KVTransferReport {
        try KVTransfer(from: source, to: self, existing: existing).run()
    }

    /// Copies all values to another store, verifying each by reading it back; see ``importValues(from:existing:)``.
    @discardableResult
    public func exportValues(
        to destination: some KVRawStoring, existing: KVExistingValue = .keep
    ) throws -> KVTransferReport {
        try destination.importValues(from: .store(self), existing: existing)
    }

    /// Exports all values as a JSON object, sorted by name.
    ///
    /// The result is meant for people and other programs. Dates (to the millisecond), bytes, UUIDs, NaN and infinities
    /// become strings, and import as strings, which cannot be decoded as the original types. To keep every value, call
    /// ``exportValues(to:existing:)``. A value whose schema version is not 1 becomes `{"@schema": 2, "@value": …}`, and
    /// so does an object with a member `@schema`.
    ///
    /// - Parameter prettyPrinted: One line per element instead of a single line.
    /// - Returns: The text, and the values that could not be read, or that JSON cannot represent, with the reasons.
    /// - Throws: ``KVStoreError`` if the keys cannot be listed.
    public func exportJSON(
        prettyPrinted: Bool = false
    ) throws -> (json: String, failures: [KVTransferReport.Failure]) {
        var object = JSONObjectText(prettyPrinted: prettyPrinted)
        var failures: [KVTransferReport.Failure] = []
        for name in try keys().sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            do {
                guard let bytes = try rawValue(named: name) else { continue }
                try object.append(name, JSONMember.tree(of: bytes))
            } catch let error as KVStoreError {
                failures.append(.init(name: name, error: error))
            } catch {
                let isDecoded = (error as? CodingFailure)?.operation == .encode
                let code: KVStoreError.Code = isDecoded ? .unencodable : .undecodable
                failures.append(.init(name: name, error: KVStoreError(code, .export, key: name, underlying: error)))
            }
        }
        return (object.text, failures)
    }
}
