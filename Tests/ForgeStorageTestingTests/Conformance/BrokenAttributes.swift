import ForgeFileStore
import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import Testing

/// A file store in memory with one defect in the attributes of files, to test that the corresponding check fails.
final class BrokenAttributes: StreamingFileStoreWrapper {
    enum Defect: String, CaseIterable {
        case cutsValues = "attributes are stored with a file and read back"
        case keepsOld = "every save replaces the attributes: one without them leaves none"
        case dropsInvalid = "attributes up to the limits are stored, others are refused before any change"
        case storesAnyway = "a save whose condition is not met keeps content and attributes"
        case forgetsLaterInBatch = "a batch stores the attributes of each of its files"
        case forgetsOfWriters = "a writer stores its attributes when it is committed"
        case changesOpenFiles = "a reader has the attributes of the file that it opened"
        case keepsInCopies, dropsSurplus

        /// The description of the check that detects the defect.
        var check: String {
            switch self {
            case .keepsInCopies: Self.keepsOld.rawValue
            case .dropsSurplus: Self.dropsInvalid.rawValue
            default: rawValue
            }
        }
    }

    private let defect: Defect?
    let base = InMemoryFileStore()

    /// A store with a defect or, as the control, without any.
    init(_ defect: Defect?) { self.defect = defect }

    func save(_ data: Data, to key: String, overwrite: Bool) async throws {
        let old = defect == .keepsOld && base.exists(key) ? try await base.attributes(of: key) : [:]
        try await base.save(
            data, to: key, if: overwrite ? .always : .absent, durability: nil, attributes: old)
    }

    func save(
        _ data: Data, to key: String, if condition: SaveCondition, durability: Durability?,
        attributes: [String: String]
    ) async throws -> StoredFile {
        var attributes = attributes
        switch defect {
        case .cutsValues: attributes = attributes.mapValues { $0.split(separator: ";").first.map(String.init) ?? "" }
        case .dropsSurplus where attributes.count > 50: attributes = [:]
        case .dropsInvalid: attributes = attributes.filter { $0.key == $0.key.lowercased() }
        case .storesAnyway where condition != .always:
            let content = base.exists(key) ? try await base.load(key) : data
            try await base.save(content, to: key, attributes: attributes)
        case .changesOpenFiles where base.exists(key):
            // As a store does that sets them at the key instead of on the new file.
            try setAttributes(attributes, of: key)
        default: break
        }
        return try await base.save(data, to: key, if: condition, durability: durability, attributes: attributes)
    }

    func copy(from source: URL, to key: String, overwrite: Bool) async throws {
        let old = defect == .keepsInCopies && base.exists(key) ? try await base.attributes(of: key) : [:]
        try await base.copy(from: source, to: key, overwrite: overwrite)
        if !old.isEmpty { try await base.save(try await base.load(key), to: key, attributes: old) }
    }

    private func setAttributes(_ attributes: [String: String], of key: String) throws {
        let file = try base.fileSystem.open(POSIXPath("/store/" + key))
        try base.fileSystem.closing(file) { () throws(FileSystemError) in
            for (name, value) in attributes {
                try base.fileSystem.setExtendedAttribute("forgestorage." + name, to: Array(value.utf8), of: file)
            }
        }
    }

    func apply(_ batch: FileBatch, durability: Durability?) async throws {
        try await base.apply(batch, durability: durability)
        guard defect == .forgetsLaterInBatch, base.exists("d/69") else { return }
        try await base.save(try await base.load("d/69"), to: "d/69")
    }

    func writer(
        for key: String, if condition: SaveCondition, durability: Durability?, attributes: [String: String]
    ) async throws -> FileWriter {
        try await base.writer(
            for: key, if: condition, durability: durability,
            attributes: defect == .forgetsOfWriters ? [:] : attributes)
    }
}

@Suite("Every check of the attributes of files detects its defect")
struct AttributesDefectTests {
    private static let checks = ConformanceChecks.fileAttributes

    @Test("a wrapper without a defect passes", arguments: checks)
    func sound(_ check: ConformanceCheck<any StreamingFileStoring>) async throws {
        try await check.run(on: BrokenAttributes(nil))
    }

    @Test(arguments: BrokenAttributes.Defect.allCases)
    func defects(_ defect: BrokenAttributes.Defect) async throws {
        let check = try #require(Self.checks.first { $0.description == defect.check })
        await #expect(throws: ConformanceViolation.self) { try await check.run(on: BrokenAttributes(defect)) }
    }

    @Test("and there is a defect for each of them")
    func completeness() {
        let planted = BrokenAttributes.Defect.allCases.map(\.check)
        #expect(Set(planted).symmetricDifference(Self.checks.map(\.description)) == [])
    }
}
