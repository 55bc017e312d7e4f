import ForgeCrashTesting
import ForgeFileSystem
import ForgeStorageTesting
import TestDepth
import Testing

private let recipes = Recipe.replacements + Recipe.logs + Recipe.mappedLogs + Recipe.names

@Suite("Recipes under crashes")
struct CrashRecipeTests {
    @Test("a correct recipe survives every crash", arguments: recipes.filter { $0.holdsUnder == nil })
    func rightRecipe(_ recipe: Recipe) async throws {
        let report = try await recipe.explorer().explore()
        #expect(report.holds, "\(report)")
        #expect(report.isExhaustive, "\(report)")
        #expect(report.stateCount > 1)
    }

    @Test(
        "a broken recipe is detected, and its mistake reported",
        arguments: TestDepth.sample(recipes.filter { $0.holdsUnder != nil }, every: 11))
    func brokenRecipe(_ recipe: Recipe) async throws {
        let report = try await recipe.explorer().explore()
        #expect(!report.holds, "\(report)")
        #expect((report.weakestSufficientProfile?.name ?? Recipe.never) == recipe.holdsUnder, "\(report)")
        let id = try #require(report.violations.first?.id)
        await #expect(throws: (any Error).self) { try await recipe.explorer().replay(id) }
    }

    @Test("there are thirty broken recipes and five correct ones")
    func enoughRecipes() {
        #expect(recipes.count { $0.holdsUnder != nil } >= 30)
        #expect(recipes.count { $0.holdsUnder == nil } >= 5)
    }
}
