extension Duration {
    /// The duration, limited to a century: a deadline later than that is outside the range of some clocks.
    package var bounded: Duration { min(max(self, .zero), .seconds(100 * 365 * 86_400)) }
}
