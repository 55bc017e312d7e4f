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

    @Test("every defect except the known survivors is detected", arguments: Mutation.all)
    func isFound(_ mutation: Mutation) async {
        let violation = await mutation.firstViolation()
        if Self.knownSurvivors.contains(mutation.description) {
            #expect(violation == nil, "\(mutation) is detected now: remove it from the list of survivors")
        } else {
            #expect(violation != nil, "\(mutation) was not detected")
        }
    }

    @Test("a file system without a defect passes in every configuration")
    func soundPasses() async {
        #expect(await Mutation.none.firstViolation() == nil)
    }

    @Test("there are at least 60 defects with distinct descriptions, and 95 % are detected")
    func isEnough() {
        #expect(Mutation.all.count >= 60)
        #expect(Set(Mutation.all.map(\.description)).count == Mutation.all.count)
        #expect(Self.knownSurvivors.isSubset(of: Mutation.all.map(\.description)))
        #expect(Self.knownSurvivors.count * 20 <= Mutation.all.count)
    }
}
