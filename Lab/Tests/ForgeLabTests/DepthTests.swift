import TestDepth
import Testing

/// These tests are built by `FORGE_DEEP` alone, so that running them without it would be a mistake.
@Suite struct DepthTests {
    @Test("the lab's tests run with the limits of a deep run")
    func isDeep() { #expect(TestDepth.isDeep) }
}
