extension Duration {
    /// The duration, of at most a century: the time after a longer one is outside the range of some clocks.
    package var bounded: Duration { min(max(self, .zero), .seconds(100 * 365 * 86_400)) }
}
