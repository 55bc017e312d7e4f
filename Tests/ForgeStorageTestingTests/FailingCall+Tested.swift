import ForgeStorageTesting
import SystemPackage
import TestDepth

extension FailingCall {
    /// The error numbers of a run: one by default, all in a deep run.
    static let testedErrnos: [Errno] = TestDepth.isDeep ? errnos : [.ioError]

    /// The distance between the runs that are made, prime to the number of modes: a default run fails two calls of
    /// five, one of them once and the other for ever.
    static let testedStep = TestDepth.limit(5, deep: 1)

    /// The first run of one of several tests, another for each of five: all begin with the calls that open a store.
    static func testedStart(_ place: Int?) -> Int { (place ?? 0) % testedStep }
}

extension FailingCallReport {
    /// How many runs in both modes these error numbers and the tested step make.
    func testedRunCount(_ errnos: [Errno] = FailingCall.testedErrnos, from start: Int = 0) -> Int {
        (callCount * 2 * errnos.count - start + FailingCall.testedStep - 1) / FailingCall.testedStep
    }
}
