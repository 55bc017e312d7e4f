#if canImport(SwiftUI)
public import SwiftUI

/// A setting in a SwiftUI view, which is updated when the value changes.
///
/// ```swift
/// import SwiftUI
///
/// struct ThemePicker: View {
///     @ObservedSetting(.theme) private var theme
///
///     var body: some View {
///         Picker("Theme", selection: $theme) {
///             Text("Light").tag(Theme.light)
///             Text("Dark").tag(Theme.dark)
///         }
///     }
/// }
/// ```
///
/// The model is the ``ObservedSettings`` of the environment (`.environment(settings)`), or else
/// ``ObservedSettings/default``. A failed assignment is reported as by ``Setting``, and the view shows the stored value.
@propertyWrapper
@MainActor
public struct ObservedSetting<Value: Codable & Sendable>: DynamicProperty {
    @Environment(ObservedSettings.self) private var settings: ObservedSettings?
    private let setting: KVSetting<Value>

    /// A view's property for a setting.
    public init(_ setting: KVSetting<Value>) {
        self.setting = setting
    }

    /// The value, or the default if it is absent or cannot be read.
    public var wrappedValue: Value {
        get { model[setting] }
        nonmutating set { model[setting] = newValue }
    }

    /// A binding to the value.
    public var projectedValue: Binding<Value> {
        let (model, setting) = (model, setting)
        return Binding(get: { model[setting] }, set: { model[setting] = $0 })
    }

    private var model: ObservedSettings { settings ?? .default }
}
#endif
