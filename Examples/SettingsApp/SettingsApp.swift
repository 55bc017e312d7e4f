// A settings screen in SwiftUI. Add this file and the package to an app target; Scripts/check-apple.py type-checks it.

import ForgeKVStore
import SwiftUI

enum Theme: String, Codable, CaseIterable {
    case system, light, dark
}

extension KVSettings {
    static let theme = KVSetting("theme", default: Theme.system)
    static let fontSize = KVSetting("editor.fontSize", default: 13)
    static let showsSidebar = KVSetting("showsSidebar", default: true)
}

@main
struct SettingsApp: App {
    var body: some Scene {
        WindowGroup { SettingsForm() }
    }
}

/// Follows every change of its settings: by this view, by other code, and by other processes of the app.
struct SettingsForm: View {
    @ObservedSetting(.theme) private var theme
    @ObservedSetting(.fontSize) private var fontSize
    @ObservedSetting(.showsSidebar) private var showsSidebar

    var body: some View {
        Form {
            if let error = DefaultSettingsStore.openingError {
                Text("Changes are lost when the app ends: \(error)")
            }
            Picker("Theme", selection: $theme) {
                ForEach(Theme.allCases, id: \.self) { theme in Text(theme.rawValue).tag(theme) }
            }
            Stepper("Font size: \(fontSize)", value: $fontSize)
            Toggle("Sidebar", isOn: $showsSidebar)
            Button("Reset") { reset() }
        }
    }

    private func reset() {
        do {
            try ObservedSettings.default.reset(.theme)
            try ObservedSettings.default.reset(.fontSize)
        } catch {
            print("not all settings are reset: \(error)")
        }
    }
}
