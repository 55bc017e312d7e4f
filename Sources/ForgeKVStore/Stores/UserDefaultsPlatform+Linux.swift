#if !canImport(Darwin)
extension UserDefaultsPlatform {
    /// Foundation writes a file of any size, and no lock of a device makes it unreadable.
    static var current: UserDefaultsPlatform { UserDefaultsPlatform(suiteLimit: nil, marker: nil) }
}
#endif
