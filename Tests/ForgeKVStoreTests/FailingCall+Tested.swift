import ForgeStorageTesting
import SystemPackage
import TestDepth

extension FailingCall {
    /// The error numbers of a run: one by default, all in a deep run.
    static let testedErrnos: [Errno] = TestDepth.isDeep ? errnos : [.ioError]

    /// The distance between runs, prime to the number of modes: a default run fails two of seven calls, one of them
    /// once and the other permanently.
    static let testedStep = TestDepth.limit(7, deep: 1)

    /// The first run of one of several tests, different for each of seven: all begin with the calls that open a store.
    static func testedStart(_ place: Int?) -> Int { (place ?? 0) % testedStep }
}

extension FailingCallReport {
    /// The number of runs in both modes with these error numbers and the tested step.
    func testedRunCount(_ errnos: [Errno] = FailingCall.testedErrnos, from start: Int = 0) -> Int {
        (callCount * 2 * errnos.count - start + FailingCall.testedStep - 1) / FailingCall.testedStep
    }
}
