import TestDepth
import Testing

/// These tests are run only with `FORGE_DEEP`, which raises their limits.
@Suite struct DepthTests {
    @Test("the lab's tests run with the limits of a deep run")
    func isDeep() { #expect(TestDepth.isDeep) }
}
