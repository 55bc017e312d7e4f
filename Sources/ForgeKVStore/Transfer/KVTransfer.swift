import ForgeCoding

/// Copies values into a store one by one and verifies each by reading it back.
struct KVTransfer {
    private let source: KVImportSource
    private let destination: any KVRawStoring
    private let existing: KVExistingValue

    init(from source: KVImportSource, to destination: any KVRawStoring, existing: KVExistingValue) {
        self.source = source
        self.destination = destination
        self.existing = existing
    }

    /// - Throws: the error of listing the source. Failures of single values are in the report.
    func run() throws -> KVTransferReport {
        var report = KVTransferReport()
        let names = try source.names().sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        for name in names {
            do {
                try carry(name, &report)
            } catch let error as KVStoreError {
                report.failures.append(.init(name: name, error: error))
            } catch {
                report.failures.append(
                    .init(name: name, error: KVStoreError(.damaged, .import, key: name, underlying: error)))
            }
        }
        return report
    }

    private func carry(_ name: String, _ report: inout KVTransferReport) throws {
        guard let bytes = try source.bytes(name) else { return }
        if let present = try destination.rawValue(named: name) {
            if Self.areEqual(present, bytes) {
                report.equalCount += 1
                return
            }
            if existing == .keep {
                report.keptNames.append(name)
                return
            }
        }
        try Self.copy(bytes, named: name, to: destination)
        report.copiedCount += 1
    }

    /// Stores a value and verifies it.
    static func copy(_ bytes: [UInt8], named name: String, to destination: any KVRawStoring) throws {
        try destination.setRawValue(bytes, named: name)
        guard let stored = try destination.rawValue(named: name), areEqual(stored, bytes) else {
            throw KVStoreError(
                .damaged, .import, key: name,
                underlying: CodingFailure(.decode, .corrupted("the value read back differs from the stored one")))
        }
    }

    /// Whether two encoded values are equal, as bytes or as values.
    private static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one != other else { return true }
        do {
            let (one, other) = (try ValueEnvelope(decoding: one), try ValueEnvelope(decoding: other))
            guard one.schemaVersion == other.schemaVersion else { return false }
            // A user defaults store converts values to a form of its own.
            return try CodedValue(decoding: one).encoded() == CodedValue(decoding: other).encoded()
        } catch {
            return false  // Undecodable values are compared as bytes.
        }
    }
}
