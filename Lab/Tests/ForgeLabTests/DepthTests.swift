import TestDepth
import Testing

/// These tests are built only with `FORGE_DEEP`, which must also raise their limits.
@Suite struct DepthTests {
    @Test("the lab's tests run with the limits of a deep run")
    func isDeep() { #expect(TestDepth.isDeep) }
}
