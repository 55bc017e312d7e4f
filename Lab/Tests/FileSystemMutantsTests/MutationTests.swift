import FileSystemMutants
import Testing

/// Verifies that the checks detect every mutant.
@Suite("The published checks detect defects")
struct MutationTests {
    /// Mutations that no check can detect.
    private static let knownSurvivors: Set<String> = [
        // Whether reading counts as an access is an option of the mount.
        "a read does not change the time of access"
    ]

    @Test("every defect but the known ones is found", arguments: Mutation.all)
    func isFound(_ mutation: Mutation) async {
        let violation = await mutation.firstViolation()
        if Self.knownSurvivors.contains(mutation.description) {
            #expect(violation == nil, "\(mutation) is found now: take it off the list of survivors")
        } else {
            #expect(violation != nil, "\(mutation) was not found")
        }
    }

    @Test("a file system without a defect passes, however it is set up")
    func soundPasses() async {
        #expect(await Mutation.none.firstViolation() == nil)
    }

    @Test("at least 60 defects are tried, each described in its own words, and 95 of 100 are found")
    func isEnough() {
        #expect(Mutation.all.count >= 60)
        #expect(Set(Mutation.all.map(\.description)).count == Mutation.all.count)
        #expect(Self.knownSurvivors.isSubset(of: Mutation.all.map(\.description)))
        #expect(Self.knownSurvivors.count * 20 <= Mutation.all.count)
    }
}
