import ForgeStorageTesting
import Testing

@Suite("Every case is asked")
struct SemanticCaseTests {
    /// Locks of `fcntl(2)`: `POSIXFileSystem` has none, and says why; the kernel is asked in `RangeLockTests`.
    private static let outsideTheProtocol: Set<Int> = [94]

    @Test("by a published check that exists")
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

    @Test("no two checks have one description")
    func areDistinct() {
        let descriptions = ConformanceSuite.fileSystem.checks.map(\.description)
        #expect(Set(descriptions).count == descriptions.count)
    }
}
