import ForgeStorageTesting
import Testing

@Suite("Every case is covered")
struct SemanticCaseTests {
    /// Locks of `fcntl(2)`: `POSIXFileSystem` deliberately lacks them; `RangeLockTests` tests the kernel's.
    private static let outsideTheProtocol: Set<Int> = [94]

    @Test("by an existing published check")
    func isAsked() {
        let published = Set(ConformanceSuite.fileSystem.checks.map(\.description))
        #expect(SemanticCase.all.map(\.number) == Array(1...140))
        for semanticCase in SemanticCase.all {
            #expect(
                semanticCase.checks.isEmpty == Self.outsideTheProtocol.contains(semanticCase.number),
                "\(semanticCase.number) \(semanticCase.situation): \(semanticCase.expectation)")
            for check in semanticCase.checks {
                #expect(published.contains(check), "\(semanticCase.number): \(check)")
            }
        }
    }

    @Test("no two checks have the same description")
    func areDistinct() {
        let descriptions = ConformanceSuite.fileSystem.checks.map(\.description)
        #expect(Set(descriptions).count == descriptions.count)
    }
}
